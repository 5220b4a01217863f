//! Every field class, decoded to the value that was written.

use crate::writer::{Bits, Order, close, compact, event, events, open, preamble};
use kymo_ctf::{Event, Value};

/// One event with these fields, written by `write`.
fn one(order: Order, fields: &str, write: impl FnOnce(&mut Bits)) -> Event {
    let metadata = preamble(order, 1_000_000_000, 0, 0) + &event(1, "e", fields);
    let mut packet = open(order, 0, 0, 100, 0, 0, 0);
    write(compact(&mut packet, 1, 5));
    let mut events = events(&metadata, &close(packet, 0));
    assert_eq!(events.len(), 1);
    events.remove(0)
}

fn values(event: &Event) -> Vec<Value> {
    event
        .fields
        .iter()
        .map(|(_, value)| value.clone())
        .collect()
}

const ORDERS: [Order; 2] = [Order::Le, Order::Be];

#[test]
fn integers_of_every_size_at_every_bit() {
    for order in ORDERS {
        for shift in 0..8 {
            let mut fields = String::new();
            if shift > 0 {
                fields += &format!("integer {{ size = {shift}; align = 1; }} lead;");
            }
            for size in 1..=64 {
                for signed in ["false", "true"] {
                    fields += &format!(
                        "integer {{ size = {size}; align = 1; signed = {signed}; }} \
                         {signed}{size};\n"
                    );
                }
            }
            let pattern = |size: u32| 0x9e37_79b9_7f4a_7c15_u64.rotate_left(size) >> (64 - size);
            let event = one(order, &fields, |bits| {
                bits.put(shift, 0);
                for size in 1..=64 {
                    bits.put(size, pattern(size)).put(size, pattern(size));
                }
            });
            for size in 1..=64 {
                let unsigned = pattern(size);
                let get = |name: String| event.fields.get(&name).cloned();
                assert_eq!(
                    get(format!("false{size}")),
                    Some(Value::UInt(unsigned)),
                    "{order:?} {size} +{shift}"
                );
                let signed = (i128::from(unsigned) << (128 - size) >> (128 - size)) as i64;
                assert_eq!(
                    get(format!("true{size}")),
                    Some(Value::Int(signed)),
                    "{order:?} {size} +{shift}"
                );
            }
        }
    }
}

#[test]
fn an_integer_can_have_a_byte_order_of_its_own() {
    let fields = "integer { size = 16; byte_order = be; } be; integer { size = 16; byte_order = le; } le;
                  integer { size = 16; byte_order = network; } net; integer { size = 16; byte_order = native; } own;";
    for order in ORDERS {
        let event = one(order, fields, |bits| {
            for byte in [1, 2, 1, 2, 1, 2, 1, 2] {
                bits.u8(byte);
            }
        });
        let own = if order == Order::Le { 0x0201 } else { 0x0102 };
        assert_eq!(
            values(&event),
            [0x0102, 0x0201, 0x0102, own].map(Value::UInt)
        );
    }
}

#[test]
fn floats() {
    let fields = "floating_point { exp_dig = 8; mant_dig = 24; align = 32; } f;
                  floating_point { exp_dig = 11; mant_dig = 53; byte_order = be; align = 8; } d;";
    let event = one(Order::Le, fields, |bits| {
        bits.align(32).put(32, f32::to_bits(-2.5).into());
        for byte in 1e300f64.to_be_bytes() {
            bits.u8(byte);
        }
    });
    assert_eq!(values(&event), [Value::Float(-2.5), Value::Float(1e300)]);
}

#[test]
fn text_in_all_its_forms() {
    let fields = "string a; string { encoding = ASCII; } empty;
                  integer { size = 8; encoding = UTF8; } fixed[6]; integer { size = 8; encoding = UTF8; } full[2];
                  uint8_t n; integer { size = 8; encoding = UTF8; } sequence[n]; uint8_t m; integer { size = 8; encoding = UTF8; } none[m];
                  integer { size = 8; encoding = none; } numbers[2]; string bad;";
    let event = one(Order::Be, fields, |bits| {
        bits.text("naïve").text("");
        for byte in *b"ab\0cd\0hi\x05abcde\0" {
            bits.u8(byte);
        }
        bits.u8(1).u8(2);
        for byte in *b"\xffx\0" {
            bits.u8(byte);
        }
    });
    let text = |text: &str| Value::Str(text.to_owned());
    assert_eq!(
        values(&event),
        [
            text("naïve"),
            text(""),
            text("ab"),
            text("hi"),
            Value::UInt(5),
            text("abcde"),
            Value::UInt(0),
            text(""),
            Value::Array(vec![Value::UInt(1), Value::UInt(2)]),
            text("\u{fffd}x"),
        ]
    );
}

#[test]
fn enumerations_give_all_labels_that_hold() {
    let fields = r#"enum : integer { size = 8; signed = true; } { NEGATIVE = -5 ... -1, zero, "a b", far = 100, next, "low" = 0 ... 9, } e[5];"#;
    let event = one(Order::Le, fields, |bits| {
        for value in [-3i8, 0, 1, 101, 50] {
            bits.u8(value as u8);
        }
    });
    let label = |value, labels: &[&str]| Value::Enum {
        value,
        labels: labels
            .iter()
            .map(|label| std::sync::Arc::from(*label))
            .collect(),
    };
    assert_eq!(
        values(&event),
        [Value::Array(vec![
            label(-3, &["NEGATIVE"]),
            label(0, &["zero", "low"]),
            label(1, &["a b", "low"]),
            label(101, &["next"]),
            label(50, &[]),
        ])]
    );
}

#[test]
fn variants_choose_by_label_wherever_the_tag_is() {
    let fields = "struct { enum : uint8_t { a, _b = 7 ... 9, rest } tag; } outer;
                  struct { variant <outer.tag> { uint8_t a; string _b; struct { uint16_t x; } rest; } v; } inner;";
    let option = |tag: u8, write: fn(&mut Bits)| {
        let event = one(Order::Le, fields, |bits| write(bits.u8(tag)));
        let Some(Value::Struct(inner)) = event.fields.get("inner") else {
            panic!()
        };
        let Some(Value::Variant { option, value }) = inner.get("v") else {
            panic!()
        };
        (option.to_string(), (**value).clone())
    };
    assert_eq!(
        option(0, |bits| {
            bits.u8(3);
        }),
        ("a".into(), Value::UInt(3))
    );
    assert_eq!(
        option(8, |bits| {
            bits.text("t");
        }),
        ("b".into(), Value::Str("t".into()))
    );
    let (name, value) = option(10, |bits| {
        bits.align(8).put(16, 500);
    });
    assert_eq!(name, "rest");
    assert!(matches!(value, Value::Struct(fields) if fields.get("x") == Some(&Value::UInt(500))));
}

#[test]
fn structures_nest_and_align() {
    let fields = "uint8_t first; struct { uint8_t x; struct { uint8_t y; } align(64) deep; } s; struct { } nothing;
                  struct pair { uint8_t a, b; }; struct pair pairs[2]; uint8_t end;";
    let event = one(Order::Le, fields, |bits| {
        bits.u8(1)
            .align(64)
            .u8(2)
            .align(64)
            .u8(3)
            .u8(4)
            .u8(5)
            .u8(6)
            .u8(7)
            .u8(8);
    });
    let shown = format!("{:?}", event.fields);
    for (name, value) in [("x", 2), ("y", 3), ("end", 8)] {
        assert!(
            shown.contains(&format!("(\"{name}\", UInt({value}))")),
            "{shown}"
        );
    }
    let Some(Value::Array(pairs)) = event.fields.get("pairs") else {
        panic!()
    };
    assert!(matches!(&pairs[1], Value::Struct(pair) if pair.get("b") == Some(&Value::UInt(7))));
}

#[test]
fn sequences_take_their_length_from_the_nearest_field_before_them() {
    let fields = "uint8_t n; struct { uint8_t n; uint16_t inner[n]; } s[2]; uint8_t outer[n];";
    let event = one(Order::Be, fields, |bits| {
        bits.u8(3);
        bits.u8(1).align(8).put(16, 700);
        bits.u8(0).align(8);
        for i in 0..3 {
            bits.u8(i);
        }
    });
    let Some(Value::Array(rows)) = event.fields.get("s") else {
        panic!()
    };
    let inner = |row: &Value| match row {
        Value::Struct(row) => row.get("inner").cloned(),
        _ => None,
    };
    assert_eq!(inner(&rows[0]), Some(Value::Array(vec![Value::UInt(700)])));
    assert_eq!(inner(&rows[1]), Some(Value::Array(vec![])));
    let list = |range: std::ops::Range<u64>| Value::Array(range.map(Value::UInt).collect());
    assert_eq!(event.fields.get("outer"), Some(&list(0..3)));
}

#[test]
fn references_reach_into_contexts_and_packet_parts() {
    let metadata = preamble(Order::Le, 1, 0, 0).replace(
        "event.header := struct event_header;",
        "event.header := struct event_header; event.context := struct { enum : uint8_t { no, yes } \
         _has; };",
    ) + "event { id = 1; name = e; context := struct { uint8_t k; }; fields := struct {
            variant <_has> { uint8_t no; uint16_t yes; } value; uint8_t near[k]; uint8_t cpus[stream.packet.context.cpu_id];
            uint8_t instance[trace.packet.header.stream_instance_id]; uint8_t id[stream.event.header.id]; }; };";
    let mut packet = open(Order::Le, 2, 0, 9, 0, 0, 3);
    compact(&mut packet, 1, 0).u8(1).u8(1).align(8).put(16, 999);
    for byte in 0..1 + 3 + 2 + 1 {
        packet.u8(byte);
    }
    let event = &events(&metadata, &close(packet, 0))[0];
    assert!(
        matches!(event.fields.get("value"), Some(Value::Variant { value, .. }) if **value == Value::UInt(999))
    );
    let lengths = ["near", "cpus", "instance", "id"].map(|name| match event.fields.get(name) {
        Some(Value::Array(values)) => values.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(lengths, [1, 3, 2, 1]);
    assert_eq!(
        event.stream_context.get("has").and_then(Value::as_u64),
        Some(1)
    );
    assert_eq!(event.context.get("k").and_then(Value::as_u64), Some(1));
}

/// The reader relies only on the metadata: the same event with other sizes, orders and alignments
/// gives the same values.
#[test]
fn a_changed_metadata_text_is_all_it_takes() {
    for order in ORDERS {
        for (width, align) in [(32, 8), (17, 1), (64, 64), (9, 16)] {
            let fields = format!(
                "uint8_t cpu; integer {{ size = {width}; align = {align}; signed = false; }} \
                 latency; string who;"
            );
            let event = one(order, &fields, |bits| {
                bits.u8(4).align(align).put(width, 300).text("x");
            });
            let text = |name| event.fields.get(name).cloned();
            assert_eq!(text("cpu"), Some(Value::UInt(4)));
            assert_eq!(
                text("latency"),
                Some(Value::UInt(300)),
                "{width} {align} {order:?}"
            );
            assert_eq!(text("who"), Some(Value::Str("x".into())));
        }
    }
}
