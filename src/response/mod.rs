//! What clients are told: how they stand, or why they are refused.

mod answers;
mod details;
mod grpc;
mod headers;
mod http;
mod responder;

pub(crate) use self::answers::Answers;
pub use self::{
    headers::{Draft, Headers, Reset},
    http::{JsonEnvelope, PlainText, ProblemJson},
    responder::Responder,
};
