//! Who is counted: keys, drawn from the request by extractors.
//!
//! | extractor | counts by |
//! |---|---|
//! | [`Global`] | nothing: all requests together |
#![cfg_attr(feature = "axum", doc = "| [`Endpoint`] | method and axum's route template |")]
#![cfg_attr(
    not(feature = "axum"),
    doc = "| `Endpoint` (feature `axum`) | method and axum's route template |"
)]
//! | [`GrpcMethod`] | the gRPC method, of services that are named |
//! | [`Routes`] | method and the first of our own route patterns that fits |
//! | [`Path`] | the raw path: as many keys as clients care to invent |
//! | [`Header`] | a header's value |
//! | [`Extension`] | what an earlier middleware put into the request's extensions |
//! | [`PeerIp`] | the address of the connection |
//! | [`ForwardedIp`] | the client's address as told by trusted proxies |
//! | a closure `\|parts: &Parts\| …` | what it returns, which must be its own: see [`IntoKey`] |
//! | [`from_fn`] | what it pushes, which may be borrowed from the request |
//! | a tuple of extractors | all of them together |
//!
//! [`.or()`](KeyExtractor::or) tries another extractor where one finds nothing; [`.ignore_case()`](KeyExtractor::ignore_case)
//! lets ASCII letters count alike.
//!
//! # Missing, partial, exempt
//!
//! An extractor that finds nothing says so ([`Drawn::Missing`]), and the tier decides what that means: by default all
//! such requests share one account, because a missing key must not be a way around a limit. In a tuple a missing
//! part becomes a mark in the key and the other parts still count, so that by default `(Header, Endpoint)` lets
//! anonymous users share one account per endpoint. [`Drawn::Exempt`] wins over everything: the tier does not apply.
//!
//! # Keys never collide
//!
//! A key is a sequence of parts with their lengths, not joined text: `("a:b", "c")` and `("a", "b:c")` are two keys. An `.or()` marks
//! which side was taken, so a header that says `192.0.2.1` is not that address.

mod buf;
mod combine;
#[cfg(feature = "axum")]
mod endpoint;
mod extension;
mod extractor;
mod global;
mod grpc_method;
mod header;
mod into_key;
mod ip;
mod method;
mod path;
mod pattern;

#[cfg(feature = "axum")]
pub use self::endpoint::Endpoint;
pub use self::{
    buf::KeyBuf,
    combine::{IgnoreCase, Or},
    extension::Extension,
    extractor::{Drawn, FromFn, KeyExtractor, from_fn},
    global::Global,
    grpc_method::GrpcMethod,
    header::{Header, InvalidHeaderName},
    into_key::IntoKey,
    ip::{ForwardedIp, InvalidCidr, PeerIp},
    path::{Path, Routes},
    pattern::{InvalidPattern, PathPattern},
};
