//! A list that is made where it stays.

use std::ops::{Deref, DerefMut};

/// A list of small things, up to `N` of which are held in place.
///
/// Not a `SmallVec`, which is made in one place and moved to another: a processor that copies what it has only just
/// written piece by piece waits until all of it has arrived, and on the way of a request that was most of the time.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize> {
    len: usize,
    inline: [T; N],
    /// All of them, once they are too many.
    spilled: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// So many of the same.
    #[inline(always)]
    pub(crate) fn filled(value: T, len: usize) -> Self {
        let spilled = if len > N { vec![value; len] } else { Vec::new() };
        Self {
            len,
            inline: [value; N],
            spilled,
        }
    }

    /// Some values; the room for more is filled with `blank`.
    pub(crate) fn of(values: impl IntoIterator<Item = T>, blank: T) -> Self {
        let mut few = Self::filled(blank, 0);
        values.into_iter().for_each(|value| few.push(value));
        few
    }

    /// The first `len` of them, and as many of `value` as are missing.
    pub(crate) fn resize(&mut self, len: usize, value: T) {
        let resized = self.iter().copied().chain(std::iter::repeat(value)).take(len);
        *self = Self::of(resized, value);
    }

    pub(crate) fn push(&mut self, value: T) {
        *self.room(value) = value;
    }

    /// Room for one more, to be filled in place; with `blank` in it until then.
    #[inline(always)]
    pub(crate) fn room(&mut self, blank: T) -> &mut T {
        let at = self.len;
        self.len += 1;
        if at < N { &mut self.inline[at] } else { self.spill(blank) }
    }

    #[cold]
    fn spill(&mut self, blank: T) -> &mut T {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(blank);
        self.spilled.last_mut().expect("just pushed")
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.inline.get(..self.len).unwrap_or(&self.spilled)
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        self.inline.get_mut(..self.len).unwrap_or(&mut self.spilled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_vec_holds(values in prop::collection::vec(any::<u8>(), 0..10), filled in 0..10_usize) {
            let mut few = Few::<_, 4>::of(values.iter().copied(), 0);
            prop_assert_eq!(&few[..], &values[..]);
            few.reverse();
            prop_assert!(few.iter().eq(values.iter().rev()));
            few.resize(filled, 9);
            prop_assert_eq!(few.len(), filled);
            prop_assert!(few.iter().eq(values.iter().rev().chain([9; 10].iter()).take(filled)));
            prop_assert_eq!(&Few::<_, 4>::filled(7, filled)[..], &vec![7; filled][..]);
        }
    }
}
