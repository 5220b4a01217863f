//! Files as `perf record` writes them, with two events. The layouts are those of Linux's
//! `perf_event.h` and of `perf.data-file-format.txt`.

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The highest byte of a number is first.
    pub is_big: bool,
    /// As `perf record -o -` writes it.
    pub is_pipe: bool,
}

/// All that a file can be.
pub const LAYOUTS: [Layout; 4] = [
    Layout {
        is_big: false,
        is_pipe: false,
    },
    Layout {
        is_big: false,
        is_pipe: true,
    },
    Layout {
        is_big: true,
        is_pipe: false,
    },
    Layout {
        is_big: true,
        is_pipe: true,
    },
];

/// The process, and its second thread.
pub const PID: u32 = 42;
/// The second thread.
pub const TID: u32 = 43;
/// Where its code lies.
pub const CODE: u64 = 0x5000;
/// So many samples are of the first event; one is of the second.
pub const SAMPLES: u64 = 6;
/// The period of the second event, which its samples do not have.
pub const PERIOD: u64 = 4_096;
/// So many records were lost.
pub const LOST: u64 = 17;
/// The time of the first sample, and the time between two, in nanoseconds.
pub const FIRST: u64 = 1_000_000;
/// The time between two.
pub const STEP: u64 = 1_000;

/// `IDENTIFIER`, `IP`, `TID`, `TIME`, `CPU`, `PERIOD`, `READ`, `CALLCHAIN`.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 4 | 1 << 5;
/// `ID`, `GROUP`, `LOST`.
const READ_FORMAT: u64 = 1 << 2 | 1 << 3 | 1 << 4;
const PERIOD_IN_SAMPLES: u64 = 1 << 8;
/// `FREQ`, `SAMPLE_ID_ALL`.
const FLAGS: u64 = FREQUENCY | 1 << 18;
const FREQUENCY: u64 = 1 << 10;
const ATTRIBUTES: usize = 112;
/// Numbers of the events, and what they are: `cpu-clock` and `page-faults`.
const EVENTS: [(u64, u64, &str); 2] = [(71, 0, "cpu-clock"), (72, 2, "page-faults")];
const HOST: u32 = 3;
const COMMAND: u32 = 11;
const EVENT_DESC: u32 = 12;

struct Bytes {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Bytes {
    fn new(layout: Layout) -> Bytes {
        Bytes {
            layout,
            bytes: Vec::new(),
        }
    }

    fn number<const N: usize>(&mut self, mut little: [u8; N]) {
        if self.layout.is_big {
            little.reverse();
        }
        self.bytes.extend(little);
    }

    fn short(&mut self, number: usize) {
        self.number((number as u16).to_le_bytes());
    }

    fn ints(&mut self, numbers: &[u32]) {
        numbers
            .iter()
            .for_each(|number| self.number(number.to_le_bytes()));
    }

    fn longs(&mut self, numbers: &[u64]) {
        numbers
            .iter()
            .for_each(|number| self.number(number.to_le_bytes()));
    }

    /// A text with at least one NUL, to a multiple of 8 bytes.
    fn padded(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// A text with its length before it.
    fn text(&mut self, text: &str) {
        self.ints(&[text.len() as u32 + 1]);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    fn record(&mut self, kind: u32, body: &Bytes) {
        self.ints(&[kind]);
        self.short(0);
        self.short(body.bytes.len() + 8);
        self.bytes.extend(&body.bytes);
    }
}

fn made(layout: Layout, fill: impl FnOnce(&mut Bytes)) -> Bytes {
    let mut bytes = Bytes::new(layout);
    fill(&mut bytes);
    bytes
}

fn attributes(to: &mut Bytes, config: u64) {
    let begin = to.bytes.len();
    // Software.
    to.ints(&[1, ATTRIBUTES as u32]);
    let (rate, kind, flags) = match config == EVENTS[0].1 {
        true => (997, SAMPLE_TYPE, FLAGS),
        false => (PERIOD, SAMPLE_TYPE & !PERIOD_IN_SAMPLES, FLAGS & !FREQUENCY),
    };
    to.longs(&[config, rate, kind, READ_FORMAT, flags]);
    to.bytes.resize(begin + ATTRIBUTES, 0);
}

/// What stands behind every record that is no sample.
fn tail(to: &mut Bytes, time: u64) {
    to.ints(&[PID, PID]);
    to.longs(&[time]);
    to.ints(&[0, 0]);
    to.longs(&[EVENTS[0].0]);
}

fn sample(to: &mut Bytes, event: u64, number: u64) {
    to.longs(&[event, CODE + number]);
    to.ints(&[PID, if number.is_multiple_of(2) { PID } else { TID }]);
    to.longs(&[FIRST + number * STEP]);
    to.ints(&[number as u32 % 2, 0]);
    if event == EVENTS[0].0 {
        // The period.
        to.longs(&[1_000]);
    }
    // The values of two events, each with its number, and what was lost.
    to.longs(&[2, 5, EVENTS[0].0, 0, 6, EVENTS[1].0, 0]);
    // In the program, and its caller.
    to.longs(&[3, 512_u64.wrapping_neg(), CODE + number, CODE + 0x100]);
}

/// The records, each with its kind.
fn records(layout: Layout) -> Bytes {
    let mut all = Bytes::new(layout);
    let name = made(layout, |to| {
        to.ints(&[PID, PID]);
        to.padded("program");
        tail(to, 0);
    });
    all.record(3, &name);
    let mapping = made(layout, |to| {
        to.ints(&[PID, PID]);
        to.longs(&[CODE, 0x1000, 0]);
        to.ints(&[8, 1]);
        to.longs(&[5, 0]);
        // Readable, executable; private.
        to.ints(&[5, 2]);
        to.padded("/no/such/program");
        tail(to, 0);
    });
    all.record(10, &mapping);
    let thread = made(layout, |to| {
        to.ints(&[PID, PID, TID, PID]);
        to.longs(&[FIRST]);
        tail(to, FIRST);
    });
    all.record(7, &thread);
    for number in 0..SAMPLES {
        all.record(9, &made(layout, |to| sample(to, EVENTS[0].0, number)));
        // A round is finished.
        all.record(68, &Bytes::new(layout));
    }
    let lost = made(layout, |to| {
        to.longs(&[EVENTS[0].0, LOST]);
        tail(to, FIRST + SAMPLES * STEP);
    });
    all.record(2, &lost);
    all.record(9, &made(layout, |to| sample(to, EVENTS[1].0, SAMPLES + 1)));
    all
}

fn features(layout: Layout) -> [(u32, Bytes); 3] {
    let host = made(layout, |to| to.text("machine"));
    let command = made(layout, |to| {
        to.ints(&[3]);
        ["perf", "record", "./program"]
            .iter()
            .for_each(|word| to.text(word));
    });
    let events = made(layout, |to| {
        to.ints(&[EVENTS.len() as u32, ATTRIBUTES as u32]);
        for (id, config, name) in EVENTS {
            attributes(to, config);
            to.ints(&[1]);
            to.text(name);
            to.longs(&[id]);
        }
    });
    [(HOST, host), (COMMAND, command), (EVENT_DESC, events)]
}

/// The file.
pub fn file(layout: Layout) -> Vec<u8> {
    let magic = u64::from_le_bytes(*b"PERFILE2");
    let mut file = made(layout, |to| to.longs(&[magic]));
    let (records, features) = (records(layout), features(layout));
    if layout.is_pipe {
        file.longs(&[16]);
        for (id, config, _) in EVENTS {
            let event = made(layout, |to| {
                attributes(to, config);
                to.longs(&[id]);
            });
            file.record(64, &event);
        }
        for (kind, feature) in &features {
            let told = made(layout, |to| {
                to.longs(&[u64::from(*kind)]);
                to.bytes.extend(&feature.bytes);
            });
            file.record(80, &told);
        }
        file.bytes.extend(records.bytes);
        return file.bytes;
    }
    let (ids, entry) = (104, ATTRIBUTES as u64 + 16);
    let (list, all) = (ids + 8 * EVENTS.len() as u64, entry * EVENTS.len() as u64);
    let data = list + all;
    file.longs(&[
        104,
        entry,
        list,
        all,
        data,
        records.bytes.len() as u64,
        0,
        0,
    ]);
    let bits = features.iter().fold(0, |bits, (kind, _)| bits | 1 << kind);
    file.longs(&[bits, 0, 0, 0]);
    EVENTS.iter().for_each(|(id, ..)| file.longs(&[*id]));
    for (place, (_, config, _)) in (0..).zip(EVENTS) {
        attributes(&mut file, config);
        file.longs(&[ids + 8 * place, 8]);
    }
    file.bytes.extend(records.bytes);
    let mut at = file.bytes.len() as u64 + 16 * features.len() as u64;
    for (_, feature) in &features {
        file.longs(&[at, feature.bytes.len() as u64]);
        at += feature.bytes.len() as u64;
    }
    features
        .iter()
        .for_each(|(_, feature)| file.bytes.extend(&feature.bytes));
    file.bytes
}
