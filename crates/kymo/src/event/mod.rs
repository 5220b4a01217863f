//! Events: declared once; encoder, metadata and sizes follow.

mod declarations;
mod field;
mod schema;
mod sequence;
mod text;
mod view;

pub use declarations::{Declarations, Declared};
pub use field::{Encoder, Field, FieldType, LENGTH_MASK};
pub use schema::{EventSchema, FieldSchema, MAX_TAILS, Shape, Vocabulary};
pub use sequence::Sequence;
pub use text::Text;
pub(crate) use view::read_integers;
pub use view::{Enumeration, FieldValues, ReadField};

use crate::channel::ChannelKind;

/// An event that can be recorded. [`event!`](crate::event!) implements it; nobody writes it by
/// hand.
pub trait Event: Sized {
    /// The declaration.
    const SCHEMA: EventSchema;
    /// The id, as in the declaration.
    const ID: u32 = Self::SCHEMA.id;
    /// The channel, as in the declaration.
    const CHANNEL: ChannelKind = Self::SCHEMA.channel;
    /// Room for the longest payload.
    type Words: AsRef<[u32]>;
    /// The payload, and how many of its words are used.
    fn encode(self) -> (Self::Words, usize);
    /// What a reader of a trace sees of a record: one method a field, of the field's name, which
    /// gives `None` where the trace does not have it.
    type View<V: FieldValues>;
    /// A view of one record's values.
    fn view<V: FieldValues>(values: V) -> Self::View<V>;
}

/// Declares an event: a struct whose doc comments, fields and types give the encoder, the metadata
/// and the sizes.
///
/// `#[id(N)]` gives the id (1 to 29 take a one-word header, 32 to 2047 two words), `#[name("..")]`
/// the name in the trace where it is not the struct's in snake case, `#[channel(Names)]` the
/// channel where it is not `Events`. Fields are written in order at their natural alignment (at
/// most 4 bytes); [`Text`] and [`Sequence`] fields stand last.
///
/// ```
/// kymo::event! {
///     /// A block came back from the disk.
///     #[id(40)]
///     pub struct BlockDone { pub sector: u64, pub error: i32, pub cached: bool }
/// }
/// use kymo::event::Event;
/// assert_eq!(BlockDone::SCHEMA.name, "block_done");
/// let (words, used) = BlockDone { sector: 7, error: -5, cached: true }.encode();
/// assert_eq!(words[..used], [7, 0, -5i32 as u32, 1]);
/// ```
#[macro_export]
macro_rules! event {
    ($(#[doc = $doc:literal])* #[id($id:literal)] $(#[name($ctf:literal)])? $(#[channel($channel:ident)])?
     $vis:vis struct $name:ident { $( $(#[doc = $fdoc:literal])* $fvis:vis $field:ident : $ty:ty ),* $(,)? }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name { $( $(#[doc = $fdoc])* #[allow(missing_docs)] $fvis $field: $ty ),* }

        const _: () = {
            /// The fields' places in the declaration.
            #[allow(non_camel_case_types, dead_code)]
            enum Place { $($field),* }

            /// A record of the event, read back from a trace.
            #[derive(Clone, Copy, Debug)]
            pub struct View<V>(V);

            #[allow(dead_code)]
            impl<V: $crate::event::FieldValues> View<V> { $(
                $(#[doc = $fdoc])*
                #[allow(missing_docs)]
                #[inline]
                pub fn $field(&self) -> Option<<$ty as $crate::event::ReadField<V>>::Value> {
                    <$ty as $crate::event::ReadField<V>>::read(&self.0, Place::$field as usize)
                }
            )* }

            impl $crate::event::Event for $name {
                const SCHEMA: $crate::event::EventSchema = {
                    const SNAKE: [u8; $crate::event::snake_case_len(stringify!($name))] =
                        $crate::event::snake_case(stringify!($name));
                    $crate::event::EventSchema {
                        id: $id,
                        name: $crate::event::first_text(&[$($ctf,)? $crate::event::ascii(&SNAKE)]),
                        doc: concat!($($doc, "\n"),*),
                        channel: $crate::event::first_channel(&[
                            $($crate::ChannelKind::$channel,)? $crate::ChannelKind::Events,
                        ]),
                        fields: &[$($crate::event::FieldSchema {
                            name: stringify!($field),
                            ty: <$ty as $crate::event::Field>::TYPE,
                            doc: concat!($($fdoc, "\n"),*),
                        }),*],
                    }
                };
                type Words = [u32; <$name as $crate::event::Event>::SCHEMA.max_payload_words()];
                #[inline(always)]
                fn encode(self) -> (Self::Words, usize) {
                    let mut words = [0; <$name as $crate::event::Event>::SCHEMA.max_payload_words()];
                    #[allow(unused_mut)]
                    let mut out = $crate::event::Encoder::new(&mut words);
                    $( $crate::event::Field::encode(self.$field, &mut out); )*
                    let used = out.words_used();
                    (words, used)
                }
                type View<V: $crate::event::FieldValues> = View<V>;
                #[inline]
                fn view<V: $crate::event::FieldValues>(values: V) -> View<V> { View(values) }
            }
        };
    };
}

/// Lists the events of a kernel, as a constant: `kymo::vocabulary![SchedSwitch, MyEvent]`. Two
/// events that claim the same id or name do not compile.
///
/// Lists of other crates come first, before a semicolon:
/// `kymo::vocabulary![driver::EVENTS, net::EVENTS; MyEvent]`. What the library records of itself
/// ([`ClockBack`](crate::vocabulary::ClockBack), [`SessionEnd`](crate::vocabulary::SessionEnd)) is
/// in every vocabulary, listed or not.
///
/// ```
/// use kymo::vocabulary::{ClockBack, SchedSwitch, SessionEnd};
///
/// kymo::event! { #[id(21)] pub struct BlockDone { pub sector: u64 } }
/// static EVENTS: kymo::Vocabulary = kymo::vocabulary![SchedSwitch, BlockDone];
/// let names = EVENTS.events().iter().map(|event| event.name);
/// assert!(names.eq(["sched_switch", "block_done", "kymo_clock_back", "kymo_session_end"]));
///
/// static MORE: kymo::Vocabulary = kymo::vocabulary![kymo::vocabulary::ALL; BlockDone];
/// assert_eq!(MORE.events().len(), kymo::vocabulary::ALL.events().len() + 1);
/// ```
/// ```compile_fail
/// kymo::event! { #[id(1)] pub struct BlockDone { pub sector: u64 } }
/// // Its id is that of `SchedSwitch`.
/// static EVENTS: kymo::Vocabulary = kymo::vocabulary![kymo::vocabulary::ALL; BlockDone];
/// ```
/// ```compile_fail
/// kymo::event! { #[id(2048)] pub struct BlockDone { pub sector: u64 } }
/// // Each id has a switch, and there are none from 2048 on.
/// static EVENTS: kymo::Vocabulary = kymo::vocabulary![BlockDone];
/// ```
/// ```compile_fail
/// kymo::event! { #[id(144)] pub struct BlockDone { pub sector: u64 } }
/// // The library records a step back of the clock under this id.
/// static EVENTS: kymo::Vocabulary = kymo::vocabulary![BlockDone];
/// ```
#[macro_export]
macro_rules! vocabulary {
    (@of $lists:expr) => {{
        const LISTS: &[&[&$crate::event::EventSchema]] = $lists;
        const EVENTS: [&$crate::event::EventSchema; $crate::event::count(LISTS)] =
            $crate::event::join(LISTS);
        $crate::Vocabulary::new(&EVENTS)
    }};
    ($($list:path),+ ; $($event:ty),* $(,)?) => {
        $crate::vocabulary![@of &[
            $($list.events(),)+
            &[$(&<$event as $crate::event::Event>::SCHEMA),*]
        ]]
    };
    ($($event:ty),* $(,)?) => {
        $crate::vocabulary![@of &[&[$(&<$event as $crate::event::Event>::SCHEMA),*]]]
    };
}

/// Whether `pattern` is the name, or ends with `*` and the name begins with the rest.
pub fn name_fits(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

/// Number of events that [`join`] makes of these lists.
#[doc(hidden)]
pub const fn count(lists: &[&[&'static EventSchema]]) -> usize {
    let (mut count, mut list) = (schema::RECORDED.len(), 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            count += !schema::is_recorded(lists[list][index]) as usize;
            index += 1;
        }
        list += 1;
    }
    count
}

/// The events of all the lists, and at the end those that the library records: `N` in all.
#[doc(hidden)]
pub const fn join<const N: usize>(lists: &[&[&'static EventSchema]]) -> [&'static EventSchema; N] {
    let mut events = [schema::RECORDED[0]; N];
    let (mut at, mut list) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            if !schema::is_recorded(lists[list][index]) {
                events[at] = lists[list][index];
                at += 1;
            }
            index += 1;
        }
        list += 1;
    }
    let mut own = 0;
    while own < schema::RECORDED.len() {
        events[at + own] = schema::RECORDED[own];
        own += 1;
    }
    events
}

/// Length of what [`snake_case`] returns.
#[doc(hidden)]
pub const fn snake_case_len(name: &str) -> usize {
    let bytes = name.as_bytes();
    let (mut len, mut i) = (0, 0);
    while i < bytes.len() {
        len += if i > 0 && bytes[i].is_ascii_uppercase() {
            2
        } else {
            1
        };
        i += 1;
    }
    len
}

/// Turns `SchedSwitch` into `sched_switch`.
#[doc(hidden)]
pub const fn snake_case<const N: usize>(name: &str) -> [u8; N] {
    let bytes = name.as_bytes();
    let mut out = [b'_'; N];
    let (mut to, mut i) = (0, 0);
    while i < bytes.len() {
        if i > 0 && bytes[i].is_ascii_uppercase() {
            to += 1;
        }
        out[to] = bytes[i].to_ascii_lowercase();
        to += 1;
        i += 1;
    }
    out
}

/// The bytes of [`snake_case`] as text.
#[doc(hidden)]
pub const fn ascii(bytes: &'static [u8]) -> &'static str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "event",
    }
}

#[doc(hidden)]
pub const fn first_text(texts: &[&'static str]) -> &'static str {
    texts[0]
}

#[doc(hidden)]
pub const fn first_channel(channels: &[ChannelKind]) -> ChannelKind {
    channels[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::enumeration! {
        /// A colour.
        pub(super) enum Colour: u16 { Red = 1, Blue = 300 }
    }
    event! {
        /// Everything at once.
        #[id(41)]
        #[name("every_kind")]
        #[channel(Names)]
        struct AllKinds {
            a: u8, b: u16, c: u32, d: u64, e: i8, f: i16, g: i32, h: i64,
            colour: Colour, on: bool, at: crate::Address, three: [u16; 3], name: Text<8>, path: Text<5>,
        }
    }

    event! { #[id(43)] struct TwoWords { seq: u32 } }

    #[test]
    fn a_declaration_gives_schema_and_encoding() {
        // Without a name and a channel of its own.
        let schema = TwoWords::SCHEMA;
        assert_eq!(
            (schema.name, schema.channel),
            ("two_words", ChannelKind::Events)
        );
        let _ = TwoWords { seq: 1 };
        let schema = AllKinds::SCHEMA;
        assert_eq!(
            (schema.id, schema.name, schema.channel),
            (41, "every_kind", ChannelKind::Names)
        );
        assert_eq!(schema.doc.trim(), "Everything at once.");
        let event = AllKinds {
            a: 1,
            b: 2,
            c: 3,
            d: 4 << 32,
            e: -1,
            f: -2,
            g: -3,
            h: -4,
            colour: {
                let _ = Colour::Red;
                Colour::Blue
            },
            on: true,
            at: crate::Address(0xffff_ffff_8000_0000),
            three: [5, 6, 7],
            name: Text::new("worker"),
            path: Text::new("/bin/sh"),
        };
        let (words, used) = event.encode();
        // a,b | c | d d | e,f | g | h h | colour,on | at at | three | name: len+2 | path: len+2
        let expected = [
            0x0002_0001,
            3,
            0,
            4,
            0xfffe_00ff,
            -3i32 as u32,
            -4i32 as u32,
            u32::MAX,
            0x0001_012c,
            0x8000_0000,
            u32::MAX,
            0x0006_0005,
            7,
            6,
            u32::from_le_bytes(*b"work"),
            u32::from_le_bytes(*b"er\0\0"),
            0x8000_0005,
            u32::from_le_bytes(*b"/bin"),
            u32::from(b'/'),
        ];
        assert_eq!(words[..used], expected);
        assert_eq!(schema.shape(), Shape::new(52, &[0, 0]));
        assert_eq!(schema.shape().payload_bytes(&words), Some(4 * used - 3));
        assert_eq!(schema.max_payload_words(), 13 + 3 + 3);
    }

    /// A record as a list of values: the place's number, or text where that is asked for.
    struct Listed(&'static [Option<u64>]);

    impl FieldValues for Listed {
        type Text = &'static str;
        type Elements = usize;
        fn unsigned(&self, place: usize) -> Option<u64> {
            self.0[place]
        }
        fn signed(&self, place: usize) -> Option<i64> {
            self.0[place].map(|value| -(value as i64))
        }
        fn text(&self, place: usize) -> Option<&'static str> {
            self.0[place].map(|_| "text")
        }
        fn elements(&self, place: usize) -> Option<usize> {
            self.0[place].map(|_| place)
        }
    }

    #[test]
    fn a_view_reads_each_field_by_its_place_and_type() {
        let mut values = [Some(0); 14];
        (values[2], values[4], values[8]) = (Some(u64::MAX), Some(7), Some(300));
        (values[9], values[13]) = (Some(2), None);
        let view = AllKinds::view(Listed(Box::leak(Box::new(values))));
        // The field is wider than declared, as another tracer may write it.
        assert_eq!((view.c(), view.e()), (Some(u64::MAX), Some(-7)));
        assert!(matches!(view.colour(), Some(Colour::Blue)));
        assert_eq!((view.on(), view.three()), (Some(true), Some(11)));
        assert_eq!((view.name(), view.path()), (Some("text"), None));
        assert!(Colour::from_value(2).is_none());
    }

    event! { #[id(42)] struct Many { a: u8, ids: Sequence<u16, 3>, name: Text<8>, at: Sequence<crate::Address, 2>, flags: Sequence<u8, 5> } }

    #[test]
    fn sequences_and_texts_stand_last_in_any_order() {
        let many = |ids: &[u16], name, at: &[u64], flags: &[u8]| {
            let mut addresses = [crate::Address(0); 4];
            addresses
                .iter_mut()
                .zip(at)
                .for_each(|(to, from)| *to = crate::Address(*from));
            let at = Sequence::new(&addresses[..at.len()]);
            let (words, used) = Many {
                a: 9,
                ids: Sequence::new(ids),
                name: Text::new(name),
                at,
                flags: Sequence::new(flags),
            }
            .encode();
            words[..used].to_vec()
        };
        let shape = Many::SCHEMA.shape();
        assert_eq!(shape, Shape::new(4, &[1, 0, 3, 0]));
        assert_eq!(Many::SCHEMA.max_payload_words(), 1 + 3 + 3 + 5 + 3);
        let words = many(&[1, 2, 3, 4], "abcde", &[1 << 32 | 7], &[1, 2]);
        let text = u32::from_le_bytes(*b"abcd");
        assert_eq!(
            words,
            [
                9,
                0x8000_0003,
                0x0002_0001,
                3,
                5,
                text,
                u32::from(b'e'),
                1,
                7,
                1,
                2,
                0x0201
            ]
        );
        assert_eq!(shape.payload_bytes(&words), Some(4 * 11 + 2));
        (0..words.len())
            .for_each(|len| assert_eq!(shape.payload_bytes(&words[..len]), None, "{len} words"));
        let empty = many(&[], "", &[], &[]);
        assert_eq!(
            (&empty[..], shape.payload_bytes(&empty)),
            (&[9, 0, 0, 0, 0][..], Some(20))
        );
        assert_eq!(
            many(&[5], "x", &[1, 2, 3], &[0; 9]).len(),
            1 + 2 + 2 + 5 + 3
        );
    }
}
