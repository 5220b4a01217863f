//! Makes the header and the library's table from the vocabulary.

#![allow(dead_code)] // Two tests share it, and each needs a part.

use std::fmt::Write;

use kymo::ChannelKind;
use kymo::count::{CacheLevel, Hardware, Software};
use kymo::counter::{Counters, HISTOGRAM_WORDS, Kind};
use kymo::ctf::tsdl;
use kymo::event::{Declared, Event, EventSchema, FieldType, Vocabulary};
use kymo::platform::Exclusive;
use kymo::ring::layout::{CHANNEL_KINDS, CONTROL_SIZE, control_offset};
use kymo::ring::local::switch_place;
use kymo::vocabulary::{ALL, ClockStep, NAME_BYTES, TYPES};

#[path = "../../src/error.rs"]
mod error;

/// Bytes of memory of each CPU that counts: the library asserts that they are enough.
const CPU_SIZE: usize = 10240;

const TEMPLATE: &str = include_str!("../../header/kymo.in.h");

/// The files that declare the events of kernels in C.
const SOURCES: [&str; 10] = [
    include_str!("../../../kymo/src/vocabulary/ipc.rs"),
    include_str!("../../../kymo/src/vocabulary/irq.rs"),
    include_str!("../../../kymo/src/vocabulary/lock.rs"),
    include_str!("../../../kymo/src/vocabulary/memory.rs"),
    include_str!("../../../kymo/src/vocabulary/process.rs"),
    include_str!("../../../kymo/src/vocabulary/sample.rs"),
    include_str!("../../../kymo/src/vocabulary/sched.rs"),
    include_str!("../../../kymo/src/vocabulary/session.rs"),
    include_str!("../../../kymo/src/vocabulary/syscall.rs"),
    include_str!("../../../kymo/src/vocabulary/user.rs"),
];

/// The ids that are types in Rust, and their names in C.
const IDS: [(&str, &str, &str, &str); 7] = [
    (
        "Tid",
        "kymo_tid",
        "uint32_t",
        "A thread. 0 is the idle thread of every CPU.",
    ),
    ("Cpu", "kymo_cpu", "uint32_t", "A CPU, counted from 0."),
    ("Pid", "kymo_pid", "uint32_t", "A process."),
    (
        "Syscall",
        "kymo_syscall",
        "uint32_t",
        "A system call, in the kernel's numbering.",
    ),
    (
        "Irq",
        "kymo_irq",
        "uint32_t",
        "An interrupt line or vector, in the kernel's numbering.",
    ),
    (
        "Object",
        "kymo_object",
        "uint64_t",
        "A lock, semaphore, pipe, queue or port: any number or address, unique while it lives.",
    ),
    (
        "Address",
        "kymo_address",
        "uint64_t",
        "An address of the kernel or a process.",
    ),
];

/// Words of a record's fields that `kymo_get` gives.
const RECORD_WORDS: usize = 32;
/// Bytes of declarations of the kernel's own for which the header's macro makes room.
const OWN_BYTES: usize = 4096;
/// As many words of their sizes.
const OWN_EVENTS: usize = 64;

/// What the library does not record for a kernel in C, or only where it records contexts.
const NOT_ALWAYS: [&str; 2] = ["event_stack", "stack_copy"];

/// The events that a kernel in C may record, and those that the library records.
fn events() -> Vec<&'static EventSchema> {
    let is_known = |event: &&EventSchema| rust_name(event.name).is_some();
    let is_there = |event: &&EventSchema| is_known(event) && !NOT_ALWAYS.contains(&event.name);
    ALL.events().iter().copied().filter(is_there).collect()
}

/// The events that have a function in C: all but those that the library records.
fn functions() -> Vec<&'static EventSchema> {
    let is_librarys = |name: &str| name.starts_with("kymo_") || name.starts_with("sampl");
    events()
        .into_iter()
        .filter(|event| !is_librarys(event.name))
        .collect()
}

/// The events that have what the kernel's own counters have counted.
fn counting() -> [&'static EventSchema; 3] {
    Kind::ALL.map(Kind::event)
}

/// The events of the mode `count`, which the library records.
fn counted() -> Vec<&'static EventSchema> {
    called(["counted_event", "group_count"])
}

/// The contexts of events, which the library records.
fn contexts() -> Vec<&'static EventSchema> {
    called(["event_stack", "event_count"])
}

fn called(names: [&str; 2]) -> Vec<&'static EventSchema> {
    let all = ALL.events().iter().copied();
    all.filter(|event| names.contains(&event.name)).collect()
}

/// An enumeration of events by their usual names, in C.
fn named(name: &str, doc: &str, events: impl Iterator<Item = (u8, String)>) -> String {
    let mut out = format!("/* {doc} */\nenum kymo_{name} {{\n");
    for (number, event) in events {
        let event = event.to_uppercase().replace('-', "_");
        writeln!(out, "    KYMO_{event} = {number},").unwrap();
    }
    with_no_last_comma(out) + "\n};\n"
}

fn hardware() -> String {
    let all = Hardware::ALL
        .iter()
        .map(|event| (*event as u8, format!("hardware_{event}")));
    named("hardware", "Events that most processors can count.", all)
}

fn caches() -> String {
    let all = CacheLevel::ALL
        .iter()
        .map(|level| (*level as u8, format!("cache_{level}")));
    named("cache", "Caches.", all)
}

fn software() -> String {
    let all = Software::ALL
        .iter()
        .map(|event| (*event as u8, format!("software_{event}")));
    named(
        "software",
        "Events that the kernel counts, by kymo_happened.",
        all,
    )
}

/// Bytes of the metadata of these events, and of what a counter's declaration takes besides its
/// unit and twice its name: in the environment, and among the labels.
pub fn counting_bytes() -> [usize; 2] {
    let events: String = counting().map(declaration).concat();
    // What precedes the event of a kind without counters. That of a kind with counters is shorter,
    // but for the counters' labels.
    let head = "typealias integer { size = 32; align = 32; signed = false; } := \
                histogram_number_t;\n\n";
    let entry = "\tkymo_counter_4095 = \": histogram of 64 bits, :\";\n, \"\" = 4095";
    let shapes = 8 * counting().len();
    [events.len() + 3 * head.len() + shapes, entry.len()]
}

/// The type of an event in Rust, if one of the sources declares it.
fn rust_name(name: &str) -> Option<&'static str> {
    let found = TYPES.iter().copied().flatten().find(|(_, of)| *of == name);
    let (ty, _) = found.unwrap_or_else(|| panic!("{name} has no type"));
    let head = format!("pub struct {ty} {{");
    SOURCES
        .iter()
        .any(|source| source.contains(&head))
        .then_some(ty)
}

/// The type of a field in the declaration in Rust.
fn rust_type(event: &EventSchema, field: &str) -> String {
    let head = format!("pub struct {} {{", rust_name(event.name).unwrap());
    let body = SOURCES
        .iter()
        .find_map(|source| source.split_once(&head))
        .unwrap()
        .1;
    let field = format!("pub {field}: ");
    let line = body
        .lines()
        .find_map(|line| line.trim().strip_prefix(&field))
        .unwrap();
    line.strip_suffix(',').unwrap().to_owned()
}

/// An enumeration: its docs, name and values, each with its docs.
struct Enumeration {
    doc: String,
    name: String,
    values: Vec<(String, String, String)>,
}

/// The enumerations that the sources declare, in the form that rustfmt gives them.
fn enumerations() -> Vec<Enumeration> {
    let mut all = Vec::new();
    for source in SOURCES {
        for block in source.split("crate::enumeration! {\n").skip(1) {
            let block = block.split("\n}\n").next().unwrap();
            let (mut doc, mut name, mut values, mut docs) =
                (String::new(), String::new(), Vec::new(), String::new());
            for line in block.lines().map(str::trim) {
                if let Some(text) = line.strip_prefix("///") {
                    docs.push_str(text);
                } else if let Some(head) = line.strip_prefix("pub enum ") {
                    (doc, docs) = (docs, String::new());
                    name = head.split(':').next().unwrap().to_owned();
                } else if let Some((label, value)) = line.split_once(" = ") {
                    let value = value.trim_end_matches(',').to_owned();
                    values.push((label.to_owned(), value, std::mem::take(&mut docs)));
                }
            }
            all.push(Enumeration { doc, name, values });
        }
    }
    all
}

/// `ThreadState` as `thread_state`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, char) in name.chars().enumerate() {
        if char.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(char.to_lowercase());
    }
    out
}

fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Doc comments as one comment of C, each on lines of its own of at most 100 columns.
fn comment(docs: &[&str], indent: &str) -> String {
    let mut lines = Vec::new();
    for doc in docs {
        let doc = doc.replace("`Tid::UNKNOWN`", "KYMO_TID_UNKNOWN");
        let doc = doc.replace("`Cpu::UNKNOWN`", "KYMO_CPU_UNKNOWN");
        let mut line = String::new();
        for word in one_line(&doc).split(' ') {
            if indent.len() + 3 + line.len() + 1 + word.len() + 3 > 100 {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        lines.push(line);
    }
    format!("{indent}/* {} */\n", lines.join(&format!("\n{indent} * ")))
}

/// Bytes of the region that depend neither on the processor nor on the CPUs.
pub fn fixed_bytes() -> usize {
    let events = events().len() + counted().len() + contexts().len();
    let shapes = 8 * (events + OWN_EVENTS);
    (shapes + metadata().len() + OWN_BYTES).next_multiple_of(64)
}

/// The metadata of a session with all events and the longest numbers.
pub fn metadata() -> String {
    let session = tsdl::Session {
        uuid: [0; 16],
        clock: kymo::Clock {
            frequency_hz: u64::MAX,
            offset_seconds: i64::MIN,
            offset_ticks: u64::MAX,
            absolute: false,
        },
        hosted: false,
        samples: true,
        counters: Counters::NONE,
    };
    let events = [events(), counted(), contexts()].concat();
    let vocabulary: &'static Vocabulary = Box::leak(Box::new(Vocabulary::new(Vec::leak(events))));
    let mut out = String::new();
    tsdl::write(&mut out, &session, vocabulary).unwrap();
    out
}

/// What a parameter is in C.
fn c_type(event: &EventSchema, name: &str, ty: &FieldType) -> String {
    let rust = rust_type(event, name);
    if let Some((_, c, ..)) = IDS.iter().find(|(id, ..)| *id == rust) {
        return (*c).to_owned();
    }
    match ty {
        _ if rust == "bool" => "bool".to_owned(),
        FieldType::Unsigned { bits, .. } => format!("uint{bits}_t"),
        FieldType::Signed { bits } => format!("int{bits}_t"),
        FieldType::Enumeration { .. } => format!("enum kymo_{}", snake(&rust)),
        other => panic!("{}.{name}: there is no parameter for {other:?}", event.name),
    }
}

/// An event's parameters, the expressions of its fixed words, and the names of its texts.
struct Function {
    parameters: Vec<String>,
    arguments: Vec<String>,
    words: Vec<String>,
    texts: Vec<&'static str>,
}

fn function(event: &EventSchema) -> Function {
    let mut made = Function {
        parameters: Vec::new(),
        arguments: Vec::new(),
        words: Vec::new(),
        texts: Vec::new(),
    };
    let mut at = 0;
    for field in event.fields {
        let name = field.name;
        made.arguments.push(name.to_owned());
        if let FieldType::Text { max } = field.ty {
            assert_eq!(max, NAME_BYTES, "{}.{name}", event.name);
            made.parameters.push(format!("const char *{name}"));
            made.parameters.push(format!("size_t {name}_size"));
            made.arguments.push(format!("{name}_size"));
            made.texts.push(name);
            continue;
        }
        made.parameters
            .push(format!("{} {name}", c_type(event, name, &field.ty)));
        let size = field.ty.fixed_size().unwrap();
        at = usize::next_multiple_of(at, size.min(4));
        match size {
            8 => {
                made.words.push(format!("(uint32_t){name}"));
                made.words
                    .push(format!("(uint32_t)((uint64_t){name} >> 32)"));
            }
            4 => made.words.push(format!("(uint32_t){name}")),
            _ => {
                let bits = 8 * size;
                let value = format!("(uint32_t)(uint{bits}_t){name}");
                match at % 4 {
                    0 => made.words.push(value),
                    lane => {
                        let word = made.words.last_mut().unwrap();
                        *word = format!("{word} | {value} << {}", 8 * lane);
                    }
                }
            }
        }
        at += size;
    }
    made
}

/// The parts of the header for one event: its function, and the one for masked interrupts.
fn write_function(out: &mut String, event: &EventSchema) {
    let made = function(event);
    let mut docs = vec![event.doc.to_owned()];
    for field in event.fields {
        let is_text = matches!(field.ty, FieldType::Text { .. });
        let size = if is_text {
            " Its array has that size, or it ends with a NUL."
        } else {
            ""
        };
        docs.push(format!("{}: {}{size}", field.name, field.doc));
    }
    out.push_str(&comment(
        &docs.iter().map(String::as_str).collect::<Vec<_>>(),
        "",
    ));
    let is_name = event.channel == ChannelKind::Names || !made.texts.is_empty();
    let forms: &[&str] = if is_name { &[""] } else { &["", "_masked"] };
    for form in forms {
        write_form(out, event, &made, form);
    }
    if let Some(thing) = event.name.strip_suffix("_name") {
        write_named(out, event, &made, thing);
    }
    out.push('\n');
}

/// The form of a name that records it only where it is due.
fn write_named(out: &mut String, event: &EventSchema, made: &Function, thing: &str) {
    let name = format!("kymo_{thing}_named");
    let id = format!("KYMO_ID_{}", event.name.to_uppercase());
    let parameters: String = made
        .parameters
        .iter()
        .map(|parameter| format!(",\n        {parameter}"))
        .collect();
    let head =
        format!("KYMO_INLINE void {name}(\n        struct kymo_name_epoch *named{parameters}) {{");
    let of = arguments(&made.arguments);
    let unused: String = made
        .arguments
        .iter()
        .map(|name| format!("    (void){name};\n"))
        .collect();
    let (words, _) = words_of(made, "            ");
    writeln!(
        out,
        "#ifndef KYMO_OFF\n{head}\n    if (KYMO_NAME_ON_((uint32_t){id})) {{\n        const uint32_t \
         due = kymo_name_due(named);\n        if (KYMO_RARE(due != 0u)) {{\n            {}\n            \
         if (kymo_record_name({id}, words, count))\n                kymo_name_recorded(named, \
         due);\n        }}\n    }}\n}}\n#else\n{head}\n    (void)named;\n{unused}}}\n#define \
         {name}(named, {of}) ((void)sizeof(({name})(named, {of}), 0))\n#endif",
        words.trim(),
    )
    .unwrap();
}

fn write_form(out: &mut String, event: &EventSchema, made: &Function, form: &str) {
    let name = format!("kymo_{}{form}", event.name);
    let id = format!("KYMO_ID_{}", event.name.to_uppercase());
    let parameters = match made.parameters.join(", ") {
        none if none.is_empty() => "void".to_owned(),
        some => some,
    };
    let mut head = format!("KYMO_INLINE void {name}({parameters}) {{");
    if head.len() > 100 {
        let parameters = parameters.replace(", ", ",\n        ");
        head = format!("KYMO_INLINE void {name}(\n        {parameters}) {{");
    }
    let names = event.channel == ChannelKind::Names;
    let test = if names {
        "KYMO_NAME_ON_"
    } else {
        "KYMO_EVENT_ON_"
    };
    let body = body(event, made, form, &id);
    let unused: String = made
        .arguments
        .iter()
        .map(|name| format!("    (void){name};\n"))
        .collect();
    writeln!(
        out,
        "#ifndef KYMO_OFF\n{head}\n    if ({test}((uint32_t){id})) {{\n{body}    }}\n}}\n#else\n\
         {head}\n{unused}}}\n#define {name}({}) ((void)sizeof(({name})({}), 0))\n#endif",
        arguments(&made.arguments),
        arguments(&made.arguments),
    )
    .unwrap();
}

fn arguments(names: &[String]) -> String {
    names.join(", ")
}

fn body(event: &EventSchema, made: &Function, form: &str, id: &str) -> String {
    let (mut body, len) = words_of(made, "        ");
    let record = match event.channel {
        ChannelKind::Names => format!("kymo_record_name({id}, words, {len})"),
        _ => format!("kymo_record{form}_({id}, words, {len})"),
    };
    writeln!(body, "        {record};").unwrap();
    body
}

/// Puts the fields together in `words`, line by line; and the number of words, as an expression.
fn words_of(made: &Function, indent: &str) -> (String, String) {
    let count = made.words.len();
    let room = count + made.texts.len() * (1 + NAME_BYTES / 4);
    if room == 0 {
        let lines = format!("{indent}const uint32_t words[1] = {{0}};\n");
        return (lines, "0u".to_owned());
    }
    let mut lines = format!("{indent}uint32_t words[{room}];\n");
    for (at, word) in made.words.iter().enumerate() {
        writeln!(lines, "{indent}words[{at}] = {word};").unwrap();
    }
    let mut len = format!("{count}u");
    for (at, text) in made.texts.iter().enumerate() {
        let declare = if at == 0 { "uint32_t " } else { "" };
        writeln!(
            lines,
            "{indent}{declare}count = kymo_put_text(words, {len}, {text}, {text}_size, \
             KYMO_NAME_BYTES);"
        )
        .unwrap();
        len = "count".to_owned();
    }
    (lines, len)
}

fn errors() -> String {
    let mut out = String::new();
    for (number, name, doc) in error::TABLE {
        out.push_str(&comment(&[doc], "    "));
        writeln!(out, "    {name} = {number},").unwrap();
    }
    with_no_last_comma(out)
}

/// The table of errors for the book.
pub fn table_of_errors() -> String {
    let row = |(number, name, doc): &(i32, &str, &str)| {
        format!("| -{number} | `{name}` | {} |\n", one_line(doc))
    };
    error::TABLE.iter().map(row).collect()
}

/// C++98 and C90 allow no comma behind the last value.
fn with_no_last_comma(text: String) -> String {
    text.trim_end().trim_end_matches(',').to_owned()
}

fn types() -> String {
    let mut out = String::new();
    for (_, name, of, doc) in IDS {
        write!(out, "{}typedef {of} {name};\n\n", comment(&[doc], "")).unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn enums() -> String {
    let mut out = String::new();
    for Enumeration { doc, name, values } in enumerations() {
        let name = snake(&name);
        writeln!(out, "{}enum kymo_{name} {{", comment(&[&doc], "")).unwrap();
        let mut inner = String::new();
        for (label, value, doc) in values {
            let label = format!("KYMO_{name}_{}", snake(&label)).to_uppercase();
            writeln!(inner, "{}    {label} = {value},", comment(&[&doc], "    ")).unwrap();
        }
        write!(out, "{}\n}};\n\n", with_no_last_comma(inner)).unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn ids() -> String {
    let mut out = String::new();
    for event in functions() {
        writeln!(
            out,
            "    KYMO_ID_{} = {},",
            event.name.to_uppercase(),
            event.id
        )
        .unwrap();
    }
    with_no_last_comma(out)
}

/// The header.
pub fn header() -> String {
    let mut declared = String::new();
    for event in functions() {
        write_function(&mut declared, event);
    }
    // On 64-bit processors a stream is larger than on others: the macro gives what is enough.
    let stream = size_of::<Exclusive<Option<kymo::ctf::stream::Stream>>>();
    let per_cpu = CHANNEL_KINDS * (CONTROL_SIZE + stream);
    let [events_bytes, counter_bytes] = counting_bytes();
    let on = |kind, id| switch_place(kind, id).0;
    let more = |kind| on(kind, 32) - 4;
    let parts = [
        ("@CONTROL_64@", control_offset(8).to_string()),
        ("@CONTROL_32@", control_offset(4).to_string()),
        ("@FIXED@", fixed_bytes().to_string()),
        ("@PER_CPU@", per_cpu.next_multiple_of(64).to_string()),
        ("@CONTROL_SIZE@", CONTROL_SIZE.to_string()),
        ("@CHANNEL_KINDS@", CHANNEL_KINDS.to_string()),
        ("@HISTOGRAM_WORDS@", HISTOGRAM_WORDS.to_string()),
        ("@HARDWARE@", hardware()),
        ("@CACHES@", caches()),
        ("@SOFTWARE@", software()),
        ("@CPU_SIZE@", CPU_SIZE.to_string()),
        ("@CPU_KIB@", (CPU_SIZE / 1024).to_string()),
        ("@COUNTING_BYTES@", events_bytes.to_string()),
        ("@COUNTER_BYTES@", counter_bytes.to_string()),
        ("@ERRORS@", errors()),
        ("@EVENTS_ON@", on(ChannelKind::Events, 0).to_string()),
        ("@EVENTS_MORE@", more(ChannelKind::Events).to_string()),
        ("@NAMES_MORE@", more(ChannelKind::Names).to_string()),
        ("@CONTEXTS_ON@", on(ChannelKind::Samples, 0).to_string()),
        ("@CONTEXTS_MORE@", more(ChannelKind::Samples).to_string()),
        ("@NAME_BYTES@", NAME_BYTES.to_string()),
        ("@RECORD_WORDS@", RECORD_WORDS.to_string()),
        ("@TYPES@", types()),
        ("@ENUMS@", enums()),
        ("@IDS@", ids()),
        ("@FUNCTIONS@", declared),
    ];
    let mut out = TEMPLATE.to_owned();
    for (mark, text) in parts {
        assert!(out.contains(mark), "{mark}");
        out = out.replace(mark, &text);
    }
    let stamp = stamp(&out);
    out.replace(STAMP, &stamp)
}

const STAMP: &str = "@STAMP@";

/// A number for this version of the header: FNV-1a of its text, 32 bits.
fn stamp(header: &str) -> String {
    assert!(header.contains(STAMP));
    let step = |sum: u32, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{:08x}", header.bytes().fold(0x811c_9dc5, step))
}

/// The name by which this version of the header calls `kymo_start`.
pub fn start() -> String {
    let header = header();
    let (_, rest) = header.split_once("#define kymo_start ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// The library's table of the vocabulary.
pub fn table() -> String {
    let mut out = TABLE_HEAD.to_owned();
    let places = [
        switch_place(ChannelKind::Events, 0).0,
        switch_place(ChannelKind::Events, 32).0,
        switch_place(ChannelKind::Names, 32).0,
        switch_place(ChannelKind::Samples, 0).0,
        switch_place(ChannelKind::Samples, 32).0,
    ];
    writeln!(
        out,
        "/// Where the header looks for the switches of event 0, of event 32, of name 32, and of the \
         contexts\n/// of these two events: bytes from the first control block.\npub const PLACES: [usize; 5] = {places:?};\n"
    )
    .unwrap();
    writeln!(
        out,
        "/// Bytes of memory for each CPU that counts, which the header's macro makes.\n\
         pub const CPU_SIZE: usize = {CPU_SIZE};\n"
    )
    .unwrap();
    for (name, doc, events) in [
        ("VOCABULARY", "The events.", events()),
        (
            "COUNTER_EVENTS",
            "The events that have what the kernel's own counters have counted.",
            counting().to_vec(),
        ),
        ("GROUP_EVENTS", "The events of the mode `count`.", counted()),
        ("CONTEXT_EVENTS", "The contexts of events.", contexts()),
    ] {
        writeln!(out, "/// {doc}\npub static {name}: &[Event] = &[").unwrap();
        for event in events {
            out.push_str(&entry(event));
        }
        out.push_str("];\n\n");
    }
    let steps: String = ChannelKind::ALL
        .map(|channel| {
            let text = declaration(&EventSchema {
                channel,
                ..ClockStep::SCHEMA
            });
            format!("    (\n        ChannelKind::{channel:?},\n        r#\"{text}\"#,\n    ),\n")
        })
        .concat();
    write!(
        out,
        "/// [`kymo_start`], by the name that this header has for it: with another one nothing\n\
         /// links.\n///\n/// # Safety\n/// As there.\n\
         #[cfg_attr(\n    not(feature = \"nmi\"),\n    unsafe(export_name = \"{0}\")\n)]\n\
         #[cfg_attr(\n    feature = \"nmi\",\n    unsafe(export_name = \"{0}_nmi\")\n)]\n\
         pub unsafe extern \"C\" fn start(mode: u32, config: *const CConfig) -> i32 {{\n    \
         // SAFETY: the caller's promise.\n    unsafe {{ kymo_start(mode, config) }}\n}}\n\n",
        start()
    )
    .unwrap();
    write!(
        out,
        "/// What whoever writes the trace inserts where a clock stepped back, in each \
         channel.\npub const CLOCK_STEPS: &[(ChannelKind, &str)] = &[\n{steps}];\n"
    )
    .unwrap();
    out
}

/// An event in the library's table.
fn entry(event: &EventSchema) -> String {
    let Declared {
        id,
        name,
        channel,
        shape,
        words,
    } = event.into();
    format!(
        "    Event {{\n        id: {id},\n        name: {},\n        \
         channel: ChannelKind::{channel:?},\n        shape: {:#x},\n        \
         words: {words},\n        text: r#\"{}\"#,\n    }},\n",
        name.len(),
        shape.to_word(),
        declaration(event)
    )
}

/// The library's table of the events' fields, for those who show records.
pub fn fields() -> String {
    let mut out = FIELDS_HEAD.replace("@RECORD_WORDS@", &RECORD_WORDS.to_string());
    let on_demand = [counting().to_vec(), counted(), contexts()].concat();
    for event in events().into_iter().chain(on_demand) {
        writeln!(out, "    ({}, &[", event.id).unwrap();
        for field in event.fields {
            writeln!(
                out,
                "        (\"{}\", {}),",
                field.name,
                format_of(&field.ty)
            )
            .unwrap();
        }
        out.push_str("    ]),\n");
    }
    out + "];\n"
}

/// A field's format as an expression.
fn format_of(ty: &FieldType) -> String {
    match ty {
        FieldType::Enumeration { bits, labels } => {
            format!("FieldType::Enumeration {{ bits: {bits}, labels: &{labels:?} }}")
        }
        FieldType::Array { element, len } => {
            let element = format_of(element);
            format!("FieldType::Array {{ element: &{element}, len: {len} }}")
        }
        FieldType::Sequence { element, max } => {
            let element = format_of(element);
            format!("FieldType::Sequence {{ element: &{element}, max: {max} }}")
        }
        number_or_text => format!("FieldType::{number_or_text:?}"),
    }
}

const FIELDS_HEAD: &str = r#"//! The fields of the vocabulary's events, for calls that show records. A kernel that makes none of
//! these is not linked with it.
//!
//! Made by `tests/header.rs` from the declarations of the crate `kymo`.

use kymo::event::FieldType;
use kymo::history::KnownField;

/// Words of a record's fields that `struct kymo_record` holds: `KYMO_RECORD_WORDS`.
pub const RECORD_WORDS: usize = @RECORD_WORDS@;

/// By the event's id, in the order in which they are written.
#[rustfmt::skip]
pub static FIELDS: &[(u16, &[KnownField])] = &[
"#;

/// An event in the metadata.
fn declaration(event: &EventSchema) -> String {
    let mut text = String::new();
    tsdl::write_event(&mut text, event).unwrap();
    text
}

const TABLE_HEAD: &str = r#"//! The vocabulary as texts and numbers, so that the library needs no code to write its metadata.
//!
//! Made by `tests/header.rs` from the declarations of the crate `kymo`.

use kymo::ChannelKind;
use kymo::event::{Declared, Shape};

use crate::config::CConfig;
use crate::session::kymo_start;

/// An event of the vocabulary.
#[derive(Debug)]
pub struct Event {
    /// The id.
    pub id: u16,
    /// Bytes of its name.
    pub name: u8,
    /// The channel that it goes to.
    pub channel: ChannelKind,
    /// Words of its longest record, header included.
    pub words: u16,
    /// Its shape, as a word.
    pub shape: u32,
    /// Its declaration in the metadata, which begins with its name.
    pub text: &'static str,
}

impl Event {
    /// What the ring must know.
    pub(crate) fn declared(&self) -> Declared {
        Declared {
            id: self.id.into(),
            name: self.name(),
            channel: self.channel,
            shape: Shape::from_word(self.shape),
            words: self.words.into(),
        }
    }

    /// Its name, which its declaration begins with.
    pub(crate) fn name(&self) -> &'static str {
        let begin = "event {\n\tname = \"".len();
        let end = begin + usize::from(self.name);
        self.text.get(begin..end).unwrap_or_default()
    }
}

"#;

/// An event as a reader shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub name: String,
    /// Whether it is in the channel of names.
    pub names: bool,
    pub fields: Vec<(String, String)>,
}

/// Calls of the functions of all events, both forms of each, and what they record.
pub fn calls() -> (String, Vec<Expected>) {
    let (mut source, mut recorded) = (String::new(), Vec::new());
    for (number, event) in functions().into_iter().enumerate() {
        let is_name = event.channel == ChannelKind::Names || event.shape().tails() > 0;
        let forms: &[&str] = if is_name { &[""] } else { &["", "_masked"] };
        for (form, suffix) in forms.iter().enumerate() {
            let (mut arguments, mut fields) = (Vec::new(), Vec::new());
            for (place, field) in event.fields.iter().enumerate() {
                let seed = (number * 37 + place * 11 + form * 5) as u64;
                let (argument, shown) = value(event, field.name, &field.ty, seed);
                arguments.push(argument);
                if matches!(field.ty, FieldType::Text { .. }) {
                    let cut = u32::from(shown.starts_with("xx"));
                    fields.push((format!("_{}_cut", field.name), cut.to_string()));
                }
                fields.push((field.name.to_owned(), shown));
            }
            let name = event.name;
            writeln!(source, "kymo_{name}{suffix}({});", arguments.join(", ")).unwrap();
            let names = event.channel == ChannelKind::Names;
            recorded.push(Expected {
                name: name.to_owned(),
                names,
                fields,
            });
        }
    }
    (source, recorded)
}

/// An argument in C, and how a reader shows it. Every bit is set somewhere.
fn value(event: &EventSchema, name: &str, ty: &FieldType, seed: u64) -> (String, String) {
    let bits = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed + 1) | 1 << 63;
    match *ty {
        _ if rust_type(event, name) == "bool" => {
            let on = seed.is_multiple_of(2);
            (on.to_string(), on.to_string())
        }
        FieldType::Unsigned { bits: width, .. } => {
            let value = bits >> (64 - width);
            (format!("UINT{width}_C({value})"), value.to_string())
        }
        FieldType::Signed { bits: width } => {
            let value = bits.cast_signed() >> (64 - width);
            let argument = format!("(int{width}_t)UINT{width}_C({})", bits >> (64 - width));
            (argument, value.to_string())
        }
        FieldType::Enumeration { labels, .. } => {
            let (label, _) = labels[seed as usize % labels.len()];
            let of = snake(&rust_type(event, name));
            let argument = format!("KYMO_{of}_{}", snake(label)).to_uppercase();
            (argument, label.to_owned())
        }
        FieldType::Text { max } => match seed % 3 {
            0 => ("\"\", KYMO_TO_NUL".to_owned(), String::new()),
            1 => {
                // The last character that fits only in part is cut off.
                let long = format!("{}\u{e9}tail", "x".repeat(max - 1));
                (
                    format!("\"{}\", KYMO_TO_NUL", escaped(&long)),
                    "x".repeat(max - 1),
                )
            }
            _ => ("\"name and more\", 4".to_owned(), "name".to_owned()),
        },
        ref other => panic!("no value for {other:?}"),
    }
}

/// A text as C has it on any compiler: bytes above 127 as octal numbers.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        0x20..=0x7e => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    text.bytes().map(byte).collect()
}
