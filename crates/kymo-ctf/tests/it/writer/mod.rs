//! Writes CTF traces bit by bit, from the definitions and independently of the reader.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of it"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo_ctf::{DecodeError, Error, Event, Item, Loss, Metadata, StreamReader};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Le,
    Be,
}

pub const UUID: [u8; 16] = [
    0x2a, 0x64, 0x22, 0xd0, 0x6c, 0xee, 0x11, 0xe0, 0x8c, 0x08, 0xcb, 0x07, 0xd7, 0xb3, 0xa5, 0x64,
];

/// Bits in CTF's two orders.
#[derive(Debug, Clone)]
pub struct Bits {
    pub order: Order,
    pub bytes: Vec<u8>,
    pub len: u64,
}

impl Bits {
    pub fn new(order: Order) -> Self {
        Bits {
            order,
            bytes: Vec::new(),
            len: 0,
        }
    }

    pub fn set(&mut self, at: u64, size: u32, value: u64) {
        for i in 0..u64::from(size) {
            let at = at + i;
            let (bit, mask) = match self.order {
                Order::Le => (value >> i & 1, 1 << (at % 8)),
                Order::Be => (value >> (u64::from(size) - 1 - i) & 1, 0x80 >> (at % 8)),
            };
            let byte = &mut self.bytes[(at / 8) as usize];
            *byte = *byte & !mask | if bit == 1 { mask } else { 0 };
        }
    }

    pub fn align(&mut self, to: u64) -> &mut Self {
        self.grow(self.len.next_multiple_of(to));
        self
    }

    fn grow(&mut self, len: u64) {
        self.len = len;
        self.bytes.resize(len.div_ceil(8) as usize, 0);
    }

    /// Appends `size` bits without alignment.
    pub fn put(&mut self, size: u32, value: u64) -> &mut Self {
        let at = self.len;
        self.grow(at + u64::from(size));
        self.set(at, size, value);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.align(8).put(8, value.into())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.align(8).put(32, value.into())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.align(8).put(64, value)
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        for &byte in text.as_bytes() {
            self.u8(byte);
        }
        self.u8(0)
    }
}

/// The beginning of a test's metadata: types, trace, clock, and Kymo's packet and event headers in
/// stream 0.
pub fn preamble(order: Order, freq: u64, offset_s: u64, offset: u64) -> String {
    let order = match order {
        Order::Le => "le",
        Order::Be => "be",
    };
    format!(
        r#"/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;

trace {{
	major = 1; minor = 8;
	uuid = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564";
	byte_order = {order};
	packet.header := struct {{
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{ domain = "bare"; tracer_name = "kymo"; tracer_major = 0; }};

clock {{
	name = "kymo"; description = "test"; freq = {freq}; precision = 0;
	offset_s = {offset_s}; offset = {offset}; absolute = FALSE;
}};

typealias integer {{ size = 64; align = 8; signed = false; map = clock.kymo.value; }} := stamp_t;

struct packet_context {{
	stamp_t timestamp_begin;
	stamp_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
}};

struct event_header {{
	enum : integer {{ size = 5; align = 1; signed = false; }} {{ compact = 1 ... 29, medium = 30, extended = 31 }} id;
	variant <id> {{
		struct {{ integer {{ size = 27; align = 1; signed = false; map = clock.kymo.value; }} timestamp; }} compact;
		struct {{
			integer {{ size = 27; align = 1; signed = false; map = clock.kymo.value; }} timestamp;
			integer {{ size = 32; align = 1; signed = false; }} id;
		}} medium;
		struct {{
			integer {{ size = 32; align = 32; signed = false; }} id;
			integer {{ size = 64; align = 32; signed = false; map = clock.kymo.value; }} timestamp;
		}} extended;
	}} v;
}} align(32);

stream {{
	id = 0;
	packet.context := struct packet_context;
	event.header := struct event_header;
}};
"#
    )
}

/// One event's block.
pub fn event(id: u32, name: &str, fields: &str) -> String {
    format!(
        "event {{ id = {id}; name = \"{name}\"; stream_id = 0; fields := struct {{ {fields} }}; \
         }};\n"
    )
}

const CONTENT_SIZE_AT: u64 = (4 + 16 + 4 + 8 + 16) * 8;

/// Begins a packet as [`preamble`] describes it; [`close`] fills in the sizes.
pub fn open(
    order: Order,
    instance: u64,
    begin: u64,
    end: u64,
    seq: u64,
    discarded: u64,
    cpu: u32,
) -> Bits {
    let mut bits = Bits::new(order);
    bits.u32(0xc1fc_1fc1);
    for byte in UUID {
        bits.u8(byte);
    }
    bits.u32(0)
        .u64(instance)
        .u64(begin)
        .u64(end)
        .u64(0)
        .u64(0)
        .u64(seq)
        .u64(discarded)
        .u32(cpu);
    bits
}

/// Ends a packet with `padding` bytes after its content.
pub fn close(mut bits: Bits, padding: u64) -> Vec<u8> {
    let content = bits.len;
    bits.set(CONTENT_SIZE_AT, 64, content);
    bits.align(8);
    let size = bits.len + padding * 8;
    bits.grow(size);
    bits.set(CONTENT_SIZE_AT + 64, 64, size);
    bits.bytes
}

pub fn compact(bits: &mut Bits, id: u32, time: u64) -> &mut Bits {
    assert!((1..30).contains(&id));
    bits.align(32).put(5, id.into()).put(27, time & 0x7ff_ffff)
}

pub fn medium(bits: &mut Bits, id: u32, time: u64) -> &mut Bits {
    bits.align(32)
        .put(5, 30)
        .put(27, time & 0x7ff_ffff)
        .put(32, id.into())
}

pub fn extended(bits: &mut Bits, id: u32, time: u64) -> &mut Bits {
    bits.align(32)
        .put(5, 31)
        .align(32)
        .put(32, id.into())
        .align(32)
        .put(64, time)
}

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("kymo-ctf-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        for (file, bytes) in files {
            std::fs::write(path.join(file), bytes).unwrap();
        }
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads a stream: its items, and the first error if there is one.
pub fn read(metadata: &str, stream: &[u8]) -> (Vec<Item>, Option<Error>) {
    let metadata = Metadata::parse(metadata).unwrap_or_else(|error| panic!("{error}\n{metadata}"));
    let mut reader = StreamReader::new(Arc::new(metadata), "s", stream);
    let (mut items, mut error) = (Vec::new(), None);
    for item in &mut reader {
        match item {
            Ok(item) => items.push(item),
            Err(found) => {
                error.get_or_insert(found);
            }
        }
    }
    assert!(reader.next().is_none(), "what has ended stays so");
    (items, error)
}

/// The events of a stream that has neither losses nor errors.
pub fn events(metadata: &str, stream: &[u8]) -> Vec<Event> {
    let (items, error) = read(metadata, stream);
    assert!(error.is_none(), "{}", error.unwrap());
    items
        .into_iter()
        .map(|item| match item {
            Item::Event(event) => event,
            other => panic!("{other:?}"),
        })
        .collect()
}

pub fn losses(items: &[Item]) -> Vec<&Loss> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Loss(loss) => Some(loss),
            _ => None,
        })
        .collect()
}

pub fn reason(error: Option<Error>) -> DecodeError {
    match error {
        Some(Error::Stream { reason, .. }) => reason,
        other => panic!("expected an error of the stream, got {other:?}"),
    }
}
