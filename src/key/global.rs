//! All requests together.

use http::request::Parts;

use super::{Drawn, KeyBuf, KeyExtractor};

/// Counts all requests together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

impl KeyExtractor for Global {
    fn draw(&self, _: &Parts, _: &mut KeyBuf) -> Drawn {
        Drawn::Key
    }
}
