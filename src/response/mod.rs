//! What clients are told: how they stand, or why they are refused.

mod answers;
mod details;
mod grpc;
mod headers;
mod http;
mod responder;
mod text;

pub(crate) use self::{answers::Answers, headers::Stamp};
pub use self::{
    headers::{Draft, Headers, Reset},
    http::{JsonEnvelope, PlainText, ProblemJson},
    responder::Responder,
};
