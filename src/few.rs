//! A list that is made where it stays.

use std::ops::{Deref, DerefMut, Range};

/// A list of small things, up to `N` of which are held in place.
///
/// Not a `SmallVec`, which is made in one place and moved to another: a processor that copies what it has only just
/// written piece by piece waits until all of it has arrived, and on the way of a request that adds up.
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

    /// Room for one more, to be filled in place: there is something in it, perhaps `blank`.
    #[inline(always)]
    pub(crate) fn room(&mut self, blank: T) -> &mut T {
        let at = self.len;
        self.len += 1;
        if at < N {
            &mut self.inline[at]
        } else {
            self.spill(blank)
        }
    }

    #[inline(always)]
    pub(crate) fn extend_from_slice(&mut self, values: &[T]) {
        let end = self.len + values.len();
        match self.inline.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(values);
                self.len = end;
            }
            None => self.spill_all(values),
        }
    }

    /// Room for so many more, to be filled in place: there is something in it, perhaps `blank`.
    #[inline(always)]
    pub(crate) fn grow(&mut self, by: usize, blank: T) -> &mut [T] {
        let start = self.len;
        if start + by <= N {
            self.len += by;
        } else {
            self.spill_all(&vec![blank; by]);
        }
        &mut self[start..]
    }

    /// Adds the first `len` of `values`, which take less time to copy than fewer if their number is known beforehand.
    #[inline(always)]
    pub(crate) fn extend_from_array<const M: usize>(&mut self, values: &[T; M], len: usize) {
        match self.inline.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) if len <= M => {
                *room = *values;
                self.len += len;
            }
            _ => self.extend_from_slice(values.get(..len).unwrap_or(values)),
        }
    }

    /// Adds some of those that are there.
    pub(crate) fn extend_from_within(&mut self, range: Range<usize>) {
        let end = self.len + range.len();
        if end <= N {
            self.inline.copy_within(range, self.len);
            self.len = end;
        } else {
            let values = self[range].to_vec();
            self.spill_all(&values);
        }
    }

    #[cold]
    fn spill_all(&mut self, values: &[T]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(values);
        self.len = self.spilled.len();
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

        #[test]
        fn it_is_extended_like_a_vec(slices in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..6)) {
            let mut few = Few::<_, 16>::filled(0, 0);
            for (nth, values) in slices.iter().enumerate() {
                let mut array = [0; 7];
                array[..values.len()].copy_from_slice(values);
                match nth % 3 {
                    0 => few.extend_from_slice(values),
                    1 => few.extend_from_array(&array, values.len()),
                    _ => values.iter().for_each(|value| few.push(*value)),
                }
            }
            prop_assert_eq!(&few[..], &slices.concat()[..]);
            let (once, half) = (few.to_vec(), few.len() / 2);
            few.extend_from_within(half..once.len());
            prop_assert_eq!(&few[..], &[&once[..], &once[half..]].concat()[..]);
        }
    }
}
