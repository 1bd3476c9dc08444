#![doc = include_str!("../docs/algorithms.md")]

mod account;
mod fixed_window;
mod grid;
mod sliding_log;
mod sliding_window;
mod stepped_bucket;
mod token_bucket;
mod trail;
mod weighted_window;

#[cfg(feature = "redis")]
pub(crate) use self::trail::Shape;
pub(crate) use self::{
    account::{Account, Terms, stepped_back},
    fixed_window::FixedWindow,
    stepped_bucket::SteppedBucket,
    token_bucket::TokenBucket,
    trail::Trail,
    weighted_window::WeightedWindow,
};
