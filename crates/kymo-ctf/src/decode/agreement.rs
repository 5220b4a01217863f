//! Tests that all decoders agree on random classes and bytes: compiled steps, the checked walk,
//! values read on demand, and visitors.

use std::sync::Arc;

use crate::class::{
    ArrayClass, Base, BitMapClass, BitOrder, BlobClass, ByteOrder, EnumClass, FieldClass,
    FieldLocation, FloatClass, IntRange, IntegerClass, Length, Mapping, Member, OptionalClass,
    Origin, Roles, StringClass, StringLength, StructClass, TextEncoding, VarIntClass, VariantClass,
    WideClass, WideKind,
};
use crate::decode::check::Walker;
use crate::decode::place::Place;
use crate::decode::plan::Plans;
use crate::decode::state::{Seen, Slots};
use crate::decode::told::Told;
use crate::decode::value::Value;
use crate::error::Position;
use crate::metadata::draft::{Draft, DraftEvent, DraftStream};
use crate::metadata::{Metadata, TraceClass};

/// Reproducible random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn integer(&mut self, signed: bool) -> IntegerClass {
        let size = if self.one_in(2) {
            8 << self.below(4)
        } else {
            self.below(64) + 1
        } as u8;
        let order = if self.one_in(4) {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        };
        let alignment = [1, 1, 8, 8, 8, 16, 32, 4][self.below(8) as usize];
        let bit_order = if self.one_in(6) {
            BitOrder::Reversed
        } else {
            BitOrder::Natural
        };
        IntegerClass {
            bit_order,
            base: Base::Decimal,
            ..IntegerClass::new(size, alignment, signed, order)
        }
    }

    fn wide(&mut self, signed: bool) -> WideClass {
        let size = if self.one_in(2) {
            72 + 8 * self.below(16)
        } else {
            65 + self.below(150)
        };
        let order = if self.one_in(4) {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        };
        let bit_order = if self.one_in(4) {
            BitOrder::Reversed
        } else {
            BitOrder::Natural
        };
        WideClass {
            bit_order,
            ..WideClass::new(size, [1, 8, 8, 64][self.below(4) as usize], signed, order)
        }
    }

    /// A small number, for lengths and choices.
    fn small(&mut self) -> FieldClass {
        match self.below(4) {
            3 => FieldClass::Wide(self.wide(false)),
            0 => FieldClass::VarInt(VarIntClass::new(false)),
            1 => FieldClass::Integer(IntegerClass {
                size: 3,
                ..self.integer(false)
            }),
            _ => FieldClass::Integer(IntegerClass::new(8, 8, false, ByteOrder::Little)),
        }
    }

    fn structure(&mut self, depth: u64) -> StructClass {
        let mut members: Vec<Member> = Vec::new();
        let mut numbers: Vec<String> = Vec::new();
        for index in 0..self.below(6) {
            let class = if self.one_in(3) {
                let class = self.small();
                let selector = self.location(&numbers).filter(|_| self.one_in(3));
                numbers.push(format!("m{index}"));
                match selector {
                    // A number on which other fields depend and that may be absent.
                    Some(selector) => {
                        let ranges = Some(vec![IntRange::new(1, 200)]);
                        FieldClass::Optional(OptionalClass::new(selector, ranges, class))
                    }
                    None => class,
                }
            } else {
                self.field(depth, &numbers)
            };
            members.push(member(&format!("m{index}"), class));
        }
        StructClass::new(members, [1, 1, 1, 8, 32][self.below(5) as usize])
    }

    fn location(&mut self, numbers: &[String]) -> Option<FieldLocation> {
        let name = numbers.get(self.below(numbers.len().max(1) as u64) as usize)?;
        Some(FieldLocation::new(
            Origin::Nearest,
            vec![Some(Arc::from(name.as_str()))],
            Position::START,
        ))
    }

    fn string_length(&mut self, numbers: &[String]) -> StringLength {
        match self.location(numbers) {
            Some(location) if self.one_in(2) => StringLength::Dynamic(location),
            _ => StringLength::Static(self.below(4)),
        }
    }

    fn field(&mut self, depth: u64, numbers: &[String]) -> FieldClass {
        let compound = if depth == 0 { 0 } else { 6 };
        if self.one_in(10) {
            let kinds = [
                WideKind::Integer,
                WideKind::Bool,
                WideKind::BitMap(Arc::from([])),
                WideKind::BitArray,
            ];
            let kind = kinds.into_iter().nth(self.below(4) as usize).unwrap();
            let signed = matches!(kind, WideKind::Integer) && self.one_in(2);
            return FieldClass::Wide(WideClass {
                kind,
                ..self.wide(signed)
            });
        }
        match self.below(10 + compound) {
            0 | 1 => FieldClass::Integer(self.integer(false)),
            2 => FieldClass::Integer(self.integer(true)),
            3 => FieldClass::Enum(EnumClass {
                integer: self.integer(true),
                mappings: [Mapping::new("low".into(), -3, 9)].into(),
            }),
            4 => FieldClass::Bool(self.integer(false)),
            5 => FieldClass::BitMap(BitMapClass {
                integer: self.integer(false),
                flags: Arc::from([]),
            }),
            6 => FieldClass::Float(FloatClass {
                size: 16 << self.below(4),
                alignment: [1, 8, 32][self.below(3) as usize],
                byte_order: ByteOrder::Little,
                bit_order: BitOrder::Natural,
                attributes: Default::default(),
            }),
            7 => FieldClass::VarInt(VarIntClass::new(self.one_in(2))),
            8 => FieldClass::String(StringClass {
                length: if self.one_in(2) {
                    StringLength::Terminated
                } else {
                    self.string_length(numbers)
                },
                encoding: [
                    TextEncoding::Utf8,
                    TextEncoding::Utf16Be,
                    TextEncoding::Utf32Le,
                ][self.below(3) as usize],
                attributes: Default::default(),
            }),
            9 => FieldClass::Blob(BlobClass {
                length: self.string_length(numbers),
                media_type: "x/y".into(),
                roles: Roles::NONE,
                attributes: Default::default(),
            }),
            10 | 11 => FieldClass::Struct(self.structure(depth - 1)),
            12 | 13 => {
                let length = match self.location(numbers) {
                    Some(location) if self.one_in(2) => Length::Dynamic(location),
                    _ => Length::Static(self.below(4)),
                };
                let element = self.field(depth - 1, numbers);
                let minimum_alignment = if self.one_in(5) { 64 } else { 1 };
                FieldClass::Array(ArrayClass {
                    minimum_alignment,
                    ..ArrayClass::new(element, length)
                })
            }
            14 => match self.location(numbers) {
                Some(selector) => {
                    let options = (0..2)
                        .map(|index| member(&format!("o{index}"), self.field(depth - 1, numbers)))
                        .collect();
                    let ranges = vec![vec![IntRange::new(0, 3)], vec![IntRange::new(4, 200)]];
                    FieldClass::Variant(VariantClass::new(selector, options, Some(ranges)))
                }
                None => FieldClass::Integer(self.integer(false)),
            },
            _ => match self.location(numbers) {
                Some(selector) => {
                    let ranges = Some(vec![IntRange::new(2, 90)]);
                    FieldClass::Optional(OptionalClass::new(
                        selector,
                        ranges,
                        self.field(depth - 1, numbers),
                    ))
                }
                None => FieldClass::Integer(self.integer(false)),
            },
        }
    }
}

fn member(name: &str, class: FieldClass) -> Member {
    Member {
        name: name.into(),
        declared_name: name.into(),
        class,
        attributes: Default::default(),
    }
}

fn metadata(fields: StructClass) -> Metadata {
    let event = DraftEvent {
        position: Position::START,
        id: 0,
        name: "e".into(),
        namespace: None,
        uid: None,
        log_level: None,
        context: None,
        fields: Some(fields),
        attributes: Default::default(),
    };
    let trace = TraceClass {
        major: 2,
        minor: 0,
        uuid: None,
        byte_order: ByteOrder::Little,
        name: None,
        namespace: None,
        uid: None,
        attributes: Default::default(),
        packet_header: None,
    };
    let streams = vec![DraftStream {
        events: vec![event],
        ..DraftStream::default()
    }];
    Draft {
        trace,
        packet_header: None,
        env: Vec::new(),
        clocks: Vec::new(),
        streams,
        warnings: Vec::new(),
    }
    .link()
    .unwrap()
}

#[test]
fn steps_walk_and_values_agree() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut stepped, mut failed, mut looked, mut left) = (0, 0, 0, 0);
    for round in 0..20_000 {
        let metadata = Arc::new(metadata(random.structure(3)));
        let plans = Plans::of(&metadata);
        let plan = plans.stream(Some(0)).unwrap();
        let fields = plan.class.events[&0].fields.as_deref().unwrap();
        for _ in 0..4 {
            let length = random.below(60);
            // Prefer small numbers, so that lengths fit.
            let bytes: Vec<u8> =
                (0..length).map(|_| if random.one_in(3) { random.below(256) } else { random.below(4) } as u8).collect();
            let limit = (length * 8).saturating_sub(random.below(9));
            let start = random.below(20).min(limit);
            let mut slots = Slots::new(plan.slots);
            let mut seen = Seen::default();
            let mut walker = Walker::new(&bytes, start, limit, &mut slots, Some(&mut seen));
            let walked = walker.structure(fields).map(|()| walker.cursor.position());
            let mut slots = Slots::new(plan.slots);
            let end = plan.events[0].layout.end(&bytes, start, limit, &mut slots);
            // If byte orders meet, the steps may leave the record to the walker; they never accept
            // more than it does.
            left += u32::from(end.is_none() && walked.is_ok());
            let end = end.or(walked.clone().ok());
            assert_eq!(
                end,
                walked.clone().ok(),
                "round {round}: {walked:?} {fields:#?}"
            );
            match end {
                Some(end) => {
                    stepped += 1;
                    let mut place = Place {
                        bytes: &bytes,
                        position: start,
                        limit: end,
                        slots: Slots::new(plan.slots),
                    };
                    let values = place.structure(fields).to_fields();
                    assert_eq!(
                        values.len(),
                        fields.members.len(),
                        "round {round}: {fields:#?}"
                    );
                    let mut told = Told(String::new());
                    place.visit_structure(fields, &mut told).unwrap();
                    assert_eq!(place.position, end, "round {round}: {fields:#?}");
                    assert_eq!(
                        told.0,
                        Told::of(&Value::Struct(values)),
                        "round {round}: {fields:#?}"
                    );
                    looked += fields.members.len();
                }
                None => failed += 1,
            }
        }
    }
    assert!(
        stepped > 10_000 && failed > 10_000 && looked > 10_000 && left < stepped / 20,
        "{stepped} {failed} {looked} {left}"
    );
}
