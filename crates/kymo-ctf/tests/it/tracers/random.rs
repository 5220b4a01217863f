//! Traces with random types and values, written bit by bit, to cover what available tracers do not
//! write.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::twin::Shape;

/// A generator of random numbers (xorshift64*), so that a seed names a trace.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 8) % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    Little,
    Big,
}

#[derive(Clone, Copy)]
pub(crate) struct Int {
    pub(crate) size: u32,
    pub(crate) align: u32,
    pub(crate) signed: bool,
    pub(crate) base: u32,
    pub(crate) order: Option<Order>,
}

pub(crate) enum Ty {
    Int(Int),
    Enum(Int, Vec<(i128, i128)>),
    Float(u32, u32),
    Text,
    Chars(u64),
    Array(Box<Ty>, u64),
    /// The length is a preceding integer.
    Sequence(String, Box<Ty>),
    Struct(u32, Vec<(String, Ty)>),
    /// The tag is a preceding enumeration of these options.
    Variant(String, Vec<(String, Ty)>),
    /// An enumeration whose labels are the options of a variant.
    Tag(Int, Vec<String>),
}

/// Bits as CTF has them: from the lowest of each byte in little-endian order, from the highest in
/// big-endian order.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
    native: Order,
}

impl Bits {
    fn align(&mut self, align: u32) {
        self.at = self.at.next_multiple_of(align as usize);
        self.bytes.resize(self.at.div_ceil(8), 0);
    }

    fn int(&mut self, int: Int, value: u64) {
        self.align(int.align);
        let order = int.order.unwrap_or(self.native);
        for i in 0..int.size {
            if self.at.is_multiple_of(8) && self.bytes.len() == self.at / 8 {
                self.bytes.push(0);
            }
            let (bit, place) = match order {
                Order::Little => (value >> i & 1, self.at % 8),
                Order::Big => (value >> (int.size - 1 - i) & 1, 7 - self.at % 8),
            };
            self.bytes[self.at / 8] |= (bit as u8) << place;
            self.at += 1;
        }
    }
}

impl Int {
    pub(crate) const BYTE: Int = Int {
        size: 8,
        align: 8,
        signed: false,
        base: 10,
        order: None,
    };

    pub(crate) fn unsigned(size: u32, align: u32) -> Int {
        Int {
            size,
            align,
            ..Int::BYTE
        }
    }

    fn tsdl(self, more: &str) -> String {
        let mut text = format!("integer {{ size = {}; align = {}; ", self.size, self.align);
        let order = match self.order {
            Some(Order::Little) => "byte_order = le; ",
            Some(Order::Big) => "byte_order = be; ",
            None => "",
        };
        let _ = write!(
            text,
            "signed = {}; base = {}; {order}{more}}}",
            self.signed, self.base
        );
        text
    }
}

fn int(random: &mut Random) -> Int {
    let whole = random.one_in(2);
    let size = if whole {
        random.of(&[8, 16, 32, 64])
    } else {
        1 + random.below(64) as u32
    };
    // A field whose byte order is not the trace's begins and ends on a byte.
    let order = if whole && random.one_in(3) {
        Some(random.of(&[Order::Little, Order::Big]))
    } else {
        None
    };
    let align = if order.is_some() {
        random.of(&[8, 16, 32])
    } else {
        random.of(&[1, 1, 1, 2, 4, 8, 8, 16, 64])
    };
    let signed = random.one_in(2);
    // In base 16, negative numbers are printed differently, and babeltrace2 2.0.4 prints 0 for
    // numbers of 57 to 63 bits.
    let base = if signed || (57..64).contains(&size) {
        10
    } else {
        random.of(&[10, 16])
    };
    Int {
        size,
        align,
        signed,
        base,
        order,
    }
}

/// The scope of the fields of all events.
pub(crate) const COMMON: &str = "stream.event.context.";

/// Generator of types.
struct Types {
    random: Random,
    /// Number of names given so far, which makes names unique.
    names: u64,
    /// Whether the types may include sequences and variants.
    is_dynamic: bool,
}

/// Preceding lengths that are visible from a field.
type Lengths = Vec<String>;

impl Types {
    fn name(&mut self) -> String {
        self.names += 1;
        format!(
            "{}{}",
            self.random
                .of(&["a", "_b", "len", "_event", "x_", "stream", "Tag"]),
            self.names
        )
    }

    fn members(&mut self, depth: u32, lengths: &mut Lengths) -> Vec<(String, Ty)> {
        let mut members = Vec::new();
        let known = lengths.len();
        for _ in 0..self.random.below(5) + u64::from(depth == 0) {
            match self.random.below(12) {
                0 => {
                    let length = self.name();
                    let int =
                        Int::unsigned(1 + self.random.below(3) as u32, self.random.of(&[1, 4, 8]));
                    members.push((length.clone(), Ty::Int(int)));
                    lengths.push(length);
                }
                1 if depth < 3 && self.is_dynamic => {
                    let (tag, options) = (self.name(), 1 + self.random.below(4));
                    let labels: Vec<String> = (0..options).map(|_| self.name()).collect();
                    let int =
                        Int::unsigned(2 + self.random.below(9) as u32, self.random.of(&[1, 8]));
                    members.push((tag.clone(), Ty::Tag(int, labels.clone())));
                    // Fields inside an option cannot be lengths of later fields.
                    let options = labels
                        .into_iter()
                        .map(|label| (label, self.ty(depth + 1, &mut lengths.clone())));
                    let variant = Ty::Variant(tag, options.collect());
                    members.push((self.name(), variant));
                }
                _ => {
                    let ty = self.ty(depth, lengths);
                    members.push((self.name(), ty));
                }
            }
        }
        if depth > 0 {
            lengths.truncate(known);
        }
        members
    }

    fn ty(&mut self, depth: u32, lengths: &mut Lengths) -> Ty {
        let deeper = depth < 3;
        match self.random.below(12) {
            0 => self.enumeration(),
            1 => Ty::Float(self.random.of(&[32, 64]), self.random.of(&[8, 32, 64])),
            2 => Ty::Text,
            3 => Ty::Chars(1 + self.random.below(9)),
            4 if deeper => Ty::Array(Box::new(self.ty(depth + 1, lengths)), self.random.below(4)),
            5 | 6 if deeper && self.is_dynamic && !lengths.is_empty() => {
                let length = lengths[self.random.below(lengths.len() as u64) as usize].clone();
                Ty::Sequence(length, Box::new(self.ty(depth + 1, lengths)))
            }
            7 | 8 if deeper => {
                let align = self.random.of(&[1, 1, 8, 32]);
                Ty::Struct(align, self.members(depth + 1, lengths))
            }
            _ => Ty::Int(int(&mut self.random)),
        }
    }

    fn enumeration(&mut self) -> Ty {
        let int = Int {
            base: 10,
            ..int(&mut self.random)
        };
        let least = if int.signed {
            -1 << (int.size - 1).min(20)
        } else {
            0
        };
        let most = 1i128 << (int.size - u32::from(int.signed)).min(20);
        let mut ranges = Vec::new();
        for _ in 0..=self.random.below(4) {
            let from = least + self.random.below((most - least) as u64) as i128;
            ranges.push((from, (from + self.random.below(5) as i128).min(most - 1)));
        }
        Ty::Enum(int, ranges)
    }

    /// All fields of a part of a record. `lengths` are those of the preceding parts, and are
    /// replaced by its own.
    fn part(&mut self, is_dynamic: bool, lengths: &mut Lengths) -> Ty {
        self.is_dynamic = is_dynamic;
        let foreign = lengths.len();
        let part = Ty::Struct(1, self.members(0, lengths));
        lengths.drain(..foreign);
        part
    }
}

/// The declaration of a member, type first.
fn declare(out: &mut String, name: &str, ty: &Ty) {
    let (ty, suffix) = spell(ty);
    let _ = writeln!(out, "{ty} {name}{suffix};");
}

/// The type, and the text after the name; the outermost length first, as in C.
fn spell(ty: &Ty) -> (String, String) {
    match ty {
        Ty::Int(int) => (int.tsdl(""), String::new()),
        Ty::Enum(int, ranges) => {
            let labels =
                ranges
                    .iter()
                    .enumerate()
                    .map(|(i, (from, to))| match (from == to, i % 2) {
                        (true, 0) => format!("L{i} = {from}"),
                        (_, 0) => format!("L{i} = {from} ... {to}"),
                        _ => format!("\"a label {i}\" = {from} ... {to}"),
                    });
            (
                format!(
                    "enum : {} {{ {} }}",
                    int.tsdl(""),
                    labels.collect::<Vec<_>>().join(", ")
                ),
                String::new(),
            )
        }
        Ty::Tag(int, labels) => (
            format!("enum : {} {{ {} }}", int.tsdl(""), labels.join(", ")),
            String::new(),
        ),
        Ty::Float(32, align) => (
            format!("floating_point {{ exp_dig = 8; mant_dig = 24; align = {align}; }}"),
            String::new(),
        ),
        Ty::Float(_, align) => (
            format!("floating_point {{ exp_dig = 11; mant_dig = 53; align = {align}; }}"),
            String::new(),
        ),
        Ty::Text => ("string { encoding = UTF8; }".into(), String::new()),
        Ty::Chars(count) => (Int::BYTE.tsdl("encoding = UTF8; "), format!("[{count}]")),
        Ty::Array(element, count) => {
            let (ty, suffix) = spell(element);
            (ty, format!("[{count}]{suffix}"))
        }
        Ty::Sequence(length, element) => {
            let (ty, suffix) = spell(element);
            (ty, format!("[{length}]{suffix}"))
        }
        Ty::Struct(align, members) => {
            let align = if *align > 1 {
                format!(" align({align})")
            } else {
                String::new()
            };
            (
                format!("struct {{\n{}}}{align}", body(members)),
                String::new(),
            )
        }
        Ty::Variant(tag, options) => (
            format!("variant <{tag}> {{\n{}}}", body(options)),
            String::new(),
        ),
    }
}

fn body(members: &[(String, Ty)]) -> String {
    let mut out = String::new();
    members
        .iter()
        .for_each(|(name, ty)| declare(&mut out, name, ty));
    out
}

fn alignment(ty: &Ty) -> u32 {
    match ty {
        Ty::Int(int) | Ty::Enum(int, _) | Ty::Tag(int, _) => int.align,
        Ty::Float(_, align) => *align,
        Ty::Text | Ty::Chars(_) => 8,
        Ty::Array(element, _) | Ty::Sequence(_, element) => alignment(element),
        Ty::Struct(align, members) => members
            .iter()
            .map(|(_, ty)| alignment(ty))
            .fold(*align, u32::max),
        Ty::Variant(..) => 1,
    }
}

/// Values of the lengths and tags written so far, the newest last.
type Written = Vec<(String, u64)>;

fn newest(written: &Written, name: &str) -> u64 {
    let name = name.strip_prefix(COMMON).unwrap_or(name);
    written
        .iter()
        .rev()
        .find(|(other, _)| other == name)
        .map_or(0, |(_, value)| *value)
}

fn value(random: &mut Random, bits: &mut Bits, name: &str, ty: &Ty, written: &mut Written) {
    match ty {
        Ty::Int(int) => {
            let mut value = random.next() >> random.below(64);
            if int.size < 64 {
                value &= (1 << int.size) - 1;
            }
            bits.int(*int, value);
            written.push((name.to_owned(), value));
        }
        Ty::Enum(int, ranges) => {
            let (from, to) = ranges[random.below(ranges.len() as u64) as usize];
            let value = if random.one_in(2) { from } else { to + 1 };
            let most = 1i128 << (int.size - u32::from(int.signed));
            bits.int(*int, value.min(most - 1) as u64);
        }
        Ty::Tag(int, labels) => {
            let value = random.below(labels.len() as u64);
            bits.int(*int, value);
            written.push((name.to_owned(), value));
        }
        Ty::Float(size, align) => {
            let value = random.below(4000) as f64 / 4.0 - 500.0;
            let raw = if *size == 32 {
                u64::from((value as f32).to_bits())
            } else {
                value.to_bits()
            };
            bits.int(Int::unsigned(*size, *align), raw);
        }
        Ty::Text => {
            // Not empty: babeltrace2 2.0.4 prints the previous text instead.
            for _ in 0..=random.below(9) {
                bits.int(Int::BYTE, u64::from(random.of(b"abcXYZ 09_-/{}()=,.:")));
            }
            bits.int(Int::BYTE, 0);
        }
        Ty::Chars(count) => {
            let used = 1 + random.below(*count);
            (0..*count).for_each(|i| bits.int(Int::BYTE, if i < used { b'a'.into() } else { 0 }));
        }
        Ty::Array(element, count) => elements(random, bits, element, *count, written),
        Ty::Sequence(length, element) => {
            elements(random, bits, element, newest(written, length), written)
        }
        Ty::Struct(_, members) => {
            bits.align(alignment(ty));
            members
                .iter()
                .for_each(|(name, ty)| value(random, bits, name, ty, written));
        }
        Ty::Variant(tag, options) => {
            let (name, ty) = &options[newest(written, tag) as usize];
            value(random, bits, name, ty, written);
        }
    }
}

fn elements(random: &mut Random, bits: &mut Bits, element: &Ty, count: u64, written: &mut Written) {
    bits.align(alignment(element));
    (0..count).for_each(|_| value(random, bits, "", element, written));
}

/// The attribute that maps a number to the clock.
const MAPPED: &str = "map = clock.c.value; ";

/// Fields of the packet context other than sizes and CPU.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    has_times: bool,
    has_number: bool,
    /// Size in bits of the counter of lost events; 0 if there is none.
    lost: u32,
}

#[derive(Default)]
struct PacketContext {
    cpu: u64,
    number: u64,
    begin: u64,
    end: u64,
    lost: u64,
    content: u64,
    size: u64,
    events: usize,
}

impl Context {
    fn new(random: &mut Random) -> Context {
        Context {
            has_times: random.one_in(2),
            has_number: random.one_in(2),
            lost: random.of(&[0, 16, 32, 64]),
        }
    }

    /// Names, roles in CTF 2, types, and values.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &'static str, Int)> {
        let int = |size| Int::unsigned(size, 8);
        let mut fields = vec![
            ("content_size", "packet-content-length", int(64)),
            ("packet_size", "packet-total-length", int(64)),
            ("cpu_id", "", int(8)),
        ];
        if self.has_times {
            fields.push(("timestamp_begin", "default-clock-timestamp", int(64)));
            fields.push((
                "timestamp_end",
                "packet-end-default-clock-timestamp",
                int(64),
            ));
        }
        if self.has_number {
            fields.push(("packet_seq_num", "packet-sequence-number", int(32)));
        }
        if self.lost > 0 {
            fields.push((
                "events_discarded",
                "discarded-event-record-counter-snapshot",
                int(self.lost),
            ));
        }
        fields
    }

    fn tsdl(&self) -> String {
        let more = |name: &str| {
            if name.starts_with("timestamp") {
                MAPPED
            } else {
                ""
            }
        };
        self.fields()
            .iter()
            .map(|(name, _, int)| format!("{} {name}; ", int.tsdl(more(name))))
            .collect()
    }

    fn write(&self, bits: &mut Bits, packet: &PacketContext) {
        for (name, _, int) in self.fields() {
            let value = match name {
                "content_size" => packet.content,
                "packet_size" => packet.size,
                "cpu_id" => packet.cpu,
                "timestamp_begin" => packet.begin,
                "timestamp_end" => packet.end,
                "packet_seq_num" => packet.number,
                _ => packet.lost,
            };
            bits.int(int, value);
        }
    }
}

/// Writes a trace of two streams into `folder`; returns the number of its events, and its metadata
/// in CTF 2, or `None` if a narrow time continues from one packet to the next: in CTF 2 each packet
/// begins at 0 (CTF2-SPEC-2.0, section 6.1).
pub(crate) fn write(seed: u64, folder: &Path) -> (usize, Option<String>) {
    let mut types = Types {
        random: Random::new(seed),
        names: 0,
        is_dynamic: true,
    };
    let random = &mut types.random;
    let native = random.of(&[Order::Little, Order::Big]);
    let id = Int::unsigned(random.of(&[3, 5, 8, 16]), random.of(&[1, 8]));
    let time = Int::unsigned(random.of(&[7, 16, 27, 32, 64]), random.of(&[1, 8, 32]));
    let mut lengths = Lengths::new();
    let common = types
        .random
        .one_in(2)
        .then(|| types.part(true, &mut lengths));
    let lengths: Lengths = lengths
        .iter()
        .map(|length| format!("{COMMON}{length}"))
        .collect();
    // babeltrace2 2.0.4 aborts if an event's own context has a sequence or a variant.
    let classes = (0..=types.random.below(4)).map(|_| {
        let context = types
            .random
            .one_in(2)
            .then(|| types.part(false, &mut Lengths::new()));
        (context, types.part(true, &mut lengths.clone()))
    });
    let classes: Vec<(Option<Ty>, Ty)> = classes.collect();
    let random = &mut types.random;

    let context = Context::new(random);
    let mut text = String::from("/* CTF 1.8 */\n");
    let order = if native == Order::Little { "le" } else { "be" };
    let _ = write!(
        text,
        "trace {{ major = 1; minor = 8; byte_order = {order}; packet.header := struct {{ {} magic; }}; }};
clock {{ name = c; freq = 1000000000; }};
stream {{
packet.context := struct {{ {} }};
event.header := struct {{ {} id; {} timestamp; }};
",
        Int::unsigned(32, 8).tsdl(""),
        context.tsdl(),
        id.tsdl(""),
        time.tsdl(MAPPED),
    );
    if let Some(common) = &common {
        let _ = writeln!(text, "event.context := {};", spell(common).0);
    }
    text.push_str("};\n");
    for (number, (context, fields)) in classes.iter().enumerate() {
        let _ = writeln!(text, "event {{ name = event{number}; id = {number};");
        if let Some(context) = context {
            let _ = writeln!(text, "context := {};", spell(context).0);
        }
        let _ = writeln!(text, "fields := {};\n}};", spell(fields).0);
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("metadata"), text).unwrap();

    let mut events = 0;
    for cpu in 0..2u64 {
        let (mut now, mut file, mut lost) = (0u64, Vec::new(), 0);
        for number in 0..=random.below(4) {
            // A wrapped time is unambiguous if the packet states its beginning.
            now += random.below(if context.has_times {
                1 << 40
            } else {
                1 << time.size.min(20)
            });
            let mut packet = PacketContext {
                cpu,
                number,
                begin: now,
                ..PacketContext::default()
            };
            let mut bits = Bits {
                bytes: Vec::new(),
                at: 0,
                native,
            };
            bits.int(Int::unsigned(32, 8), 0xc1fc_1fc1);
            context.write(&mut bits, &packet);
            let length = bits.bytes.len();
            for _ in 0..random.below(30) {
                let class = random.below(classes.len() as u64);
                now += random.below(1 << time.size.min(20));
                let header = Ty::Struct(
                    1,
                    vec![(String::new(), Ty::Int(id)), (String::new(), Ty::Int(time))],
                );
                bits.align(alignment(&header));
                bits.int(id, class);
                bits.int(
                    time,
                    if time.size < 64 {
                        now & ((1 << time.size) - 1)
                    } else {
                        now
                    },
                );
                let (context, fields) = &classes[class as usize];
                let mut written = Written::new();
                for part in [common.as_ref(), context.as_ref(), Some(fields)]
                    .into_iter()
                    .flatten()
                {
                    value(random, &mut bits, "", part, &mut written);
                }
                events += 1;
                packet.events += 1;
            }
            now += random.below(1000);
            lost += if random.one_in(2) {
                random.below(200)
            } else {
                0
            };
            packet.content = bits.at as u64;
            packet.size = packet.content.next_multiple_of(8) + 8 * random.below(20);
            (packet.end, packet.lost) = (now, lost);
            let mut head = Bits {
                bytes: Vec::new(),
                at: 0,
                native,
            };
            head.int(Int::unsigned(32, 8), 0xc1fc_1fc1);
            context.write(&mut head, &packet);
            bits.bytes[..length].copy_from_slice(&head.bytes);
            bits.bytes.resize(packet.size as usize / 8, 0);
            // Some packets are left out, but never the first one.
            if number == 0 || !random.one_in(4) {
                file.extend(bits.bytes);
            } else {
                events -= packet.events;
            }
        }
        fs::write(folder.join(format!("stream_{cpu}")), file).unwrap();
    }
    let has_twin = context.has_times || time.size == 64;
    let twin = Shape {
        native,
        id,
        time,
        context,
        common: common.as_ref(),
        classes: &classes,
    };
    (events, has_twin.then(|| twin.json()))
}
