//! Extractors made of extractors.

use http::request::Parts;

use super::buf::Sign;
use super::{Drawn, KeyBuf, KeyExtractor};

/// One extractor, or another where the first finds no key; see [`KeyExtractor::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B> {
    first: A,
    other: B,
}

impl<A, B> Or<A, B> {
    pub(super) const fn new(first: A, other: B) -> Self {
        Self { first, other }
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for Or<A, B> {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        let mark = key.mark();
        key.sign(Sign::FirstBranch);
        let first = self.first.draw(parts, key);
        if matches!(first, Drawn::Key | Drawn::Exempt) {
            return first;
        }
        key.rewind(mark);
        key.sign(Sign::OtherBranch);
        match self.other.draw(parts, key) {
            // Half a key is better than none.
            Drawn::Missing if first == Drawn::Partial => {
                key.rewind(mark);
                key.sign(Sign::FirstBranch);
                self.first.draw(parts, key)
            }
            other => other,
        }
    }
}

/// Lets ASCII letters of either case count alike; see [`KeyExtractor::ignore_case`].
#[derive(Clone, Debug)]
pub struct IgnoreCase<E> {
    inner: E,
}

impl<E> IgnoreCase<E> {
    pub(super) const fn new(inner: E) -> Self {
        Self { inner }
    }
}

impl<E: KeyExtractor> KeyExtractor for IgnoreCase<E> {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        let mark = key.mark();
        let drawn = self.inner.draw(parts, key);
        key.lower_case_since(mark);
        drawn
    }
}

macro_rules! tuple {
    ($($element:ident)*) => {
        #[allow(non_snake_case, reason = "the elements are named like their types")]
        impl<$($element: KeyExtractor),*> KeyExtractor for ($($element,)*) {
            fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
                let ($($element,)*) = self;
                let mut found = false;
                let mut missing = false;
                $(
                    let mark = key.mark();
                    match $element.draw(parts, key) {
                        Drawn::Key => found = true,
                        Drawn::Partial => (found, missing) = (true, true),
                        Drawn::Exempt => return Drawn::Exempt,
                        Drawn::Missing => {
                            missing = true;
                            key.rewind(mark);
                            key.sign(Sign::Missing);
                        }
                    }
                    // An element may push any number of parts: without an end, the next one's could pass for its own.
                    key.sign(Sign::End);
                )*
                match (found, missing) {
                    (true, false) => Drawn::Key,
                    (true, true) => Drawn::Partial,
                    (false, _) => Drawn::Missing,
                }
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
