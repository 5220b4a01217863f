//! Bounded sequences.

use super::{Encoder, Field, FieldType};

/// A sequence of up to `N` integers or ids; where some were cut off, the trace says so.
///
/// ```
/// use kymo::{Sequence, Tid};
/// kymo::event! {
///     /// What the deadlock detector found.
///     #[id(21)]
///     pub struct Deadlock { pub tids: Sequence<Tid, 8> }
/// }
/// let deadlock = Deadlock { tids: Sequence::new(&[Tid(3), Tid(5)]) };
/// assert_eq!(kymo::event::Event::encode(deadlock).1, 3); // The length, and two words.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<T, const N: usize> {
    elements: [T; N],
    len: usize,
    cut: bool,
}

impl<T: Field + Default, const N: usize> Sequence<T, N> {
    /// The first of `elements`, as many as fit.
    #[inline]
    pub fn new(elements: &[T]) -> Self {
        let mut sequence = Sequence {
            elements: [T::default(); N],
            len: elements.len().min(N),
            cut: elements.len() > N,
        };
        for (to, from) in sequence.elements.iter_mut().zip(elements) {
            *to = *from;
        }
        sequence
    }
}

impl<T, const N: usize> Sequence<T, N> {
    /// Whether something was cut off.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The elements that are recorded.
    pub fn as_slice(&self) -> &[T] {
        self.elements.get(..self.len).unwrap_or(&[])
    }
}

impl<T: Field, const N: usize> Field for Sequence<T, N> {
    const TYPE: FieldType = {
        assert!(
            matches!(
                T::TYPE,
                FieldType::Unsigned { .. }
                    | FieldType::Signed { .. }
                    | FieldType::Enumeration { .. }
            ),
            "a sequence's elements are integers, ids or enumerations"
        );
        FieldType::Sequence {
            element: &T::TYPE,
            max: N,
        }
    };
    #[inline]
    fn encode(self, out: &mut Encoder<'_>) {
        out.put_sequence(self.as_slice(), self.cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<T: Field + Default, const N: usize>(sequence: Sequence<T, N>) -> Vec<u32> {
        let mut words = [0u32; 16];
        let mut out = Encoder::new(&mut words);
        sequence.encode(&mut out);
        let used = out.words_used();
        assert!(used <= Sequence::<T, N>::TYPE.max_words());
        words[..used].to_vec()
    }

    #[test]
    fn a_sequence_takes_its_length_and_its_elements_up_to_the_word() {
        assert_eq!(
            words(Sequence::<u8, 5>::new(&[1, 2, 3, 4, 5])),
            [5, 0x0403_0201, 5]
        );
        assert_eq!(
            words(Sequence::<u16, 3>::new(&[1, 2, 3])),
            [3, 0x0002_0001, 3]
        );
        assert_eq!(words(Sequence::<u64, 2>::new(&[1 << 40])), [1, 0, 1 << 8]);
        assert_eq!(words(Sequence::<crate::Tid, 2>::new(&[])), [0]);
        let cut = Sequence::<i32, 2>::new(&[-1, -2, -3]);
        assert_eq!((cut.as_slice(), cut.is_cut()), (&[-1, -2][..], true));
        assert_eq!(words(cut), [0x8000_0002, u32::MAX, u32::MAX - 1]);
    }
}
