//! A decoder of Perfetto's packets for tests, which panics at unknown fields.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of it"
)]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Keeps the file for `cargo xtask test export`, which checks it against the published schema.
pub fn keep(file: &std::path::Path, name: &str) {
    if let Some(folder) = std::env::var_os("KYMO_EXPORTED") {
        std::fs::copy(
            file,
            std::path::Path::new(&folder)
                .join(name)
                .with_extension("pftrace"),
        )
        .unwrap();
    }
}

/// A field: its number, and a number or bytes.
pub type Field<'a> = (u64, u64, &'a [u8]);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    unreachable!()
}

pub fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (number, length) = match key & 7 {
            0 => (varint(&mut bytes), 0),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk::<8>().unwrap();
                bytes = rest;
                (u64::from_le_bytes(*fixed), 0)
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                (0, length)
            }
            other => panic!("wire type {other}"),
        };
        let (content, rest) = bytes.split_at(length);
        fields.push((key >> 3, number, content));
        bytes = rest;
    }
    fields
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Track {
        id: u64,
        parent: u64,
        what: String,
    },
    Event {
        at: u64,
        track: u64,
        kind: u64,
        label: String,
        flow: Option<(bool, u64)>,
        notes: String,
    },
}

#[derive(Default)]
pub struct Packets {
    pub packets: Vec<Packet>,
    resets: usize,
}

impl Packets {
    pub fn read(file: &[u8]) -> Packets {
        let mut all = Packets::default();
        let mut tables: HashMap<(u64, u64), String> = HashMap::new();
        for (number, _, packet) in fields(file) {
            assert_eq!(number, 1);
            all.packet(&fields(packet), &mut tables);
        }
        all
    }

    fn packet(&mut self, packet: &[Field<'_>], tables: &mut HashMap<(u64, u64), String>) {
        let mut at = None;
        let mut told = 0;
        for &(number, value, content) in packet {
            match number {
                8 => at = Some(value),
                10 => assert_eq!(value, 1),
                12 => {
                    for (table, _, entry) in fields(content) {
                        assert!((1..=3).contains(&table));
                        let [(1, number, _), (2, _, name)] = fields(entry)[..] else {
                            panic!("{entry:?}")
                        };
                        assert_eq!(tables.insert((table, number), text(name)), None);
                    }
                }
                13 => {
                    if value & 1 != 0 {
                        tables.clear();
                        self.resets += 1;
                    }
                    assert_eq!(value & 2, 2);
                }
                11 => {
                    told += 1;
                    self.packets.push(event(at.unwrap(), content, tables));
                }
                60 => {
                    told += 1;
                    self.packets.push(track(content));
                }
                other => panic!("packet field {other}"),
            }
        }
        assert_eq!(told, 1);
    }

    /// Number of resets of the tables of names.
    pub fn resets(&self) -> usize {
        self.resets
    }

    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for packet in &self.packets {
            let _ = match packet {
                Packet::Track { id, parent, what } => {
                    writeln!(out, "track {id} in {parent}: {what}")
                }
                Packet::Event {
                    at,
                    track,
                    kind,
                    label,
                    flow,
                    notes,
                } => {
                    let kind =
                        ["?", "begin", "end", "point", "counter"][usize::try_from(*kind).unwrap()];
                    let flow = match flow {
                        None => String::new(),
                        Some((true, flow)) => format!(" flow {flow} begins"),
                        Some((false, flow)) => format!(" flow {flow} ends"),
                    };
                    writeln!(out, "{at:>6} track {track} {kind}{label}{notes}{flow}")
                }
            };
        }
        out
    }

    /// Names, beginnings and ends of all slices, in the order of the ends.
    pub fn slices(&self) -> Vec<(String, u64, u64)> {
        let mut open: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
        let mut slices = Vec::new();
        for packet in &self.packets {
            if let Packet::Event {
                at,
                track,
                kind,
                label,
                ..
            } = packet
            {
                match kind {
                    1 => open.entry(*track).or_default().push((label.clone(), *at)),
                    2 => {
                        let (label, from) = open.get_mut(track).unwrap().pop().unwrap();
                        let name = label.split('"').nth(1).unwrap().to_owned();
                        slices.push((name, from, *at));
                    }
                    _ => {}
                }
            }
        }
        slices
    }

    pub fn flows(&self) -> usize {
        self.packets
            .iter()
            .filter(|packet| {
                matches!(
                    packet,
                    Packet::Event {
                        flow: Some((true, _)),
                        ..
                    }
                )
            })
            .count()
    }
}

fn track(content: &[u8]) -> Packet {
    let (mut id, mut parent, mut what) = (0, 0, String::new());
    for (number, value, content) in fields(content) {
        let _ = match number {
            1 => {
                id = value;
                Ok(())
            }
            5 => {
                parent = value;
                Ok(())
            }
            2 => write!(what, " \"{}\"", text(content)),
            3 => {
                let [(1, pid, _), (6, _, name)] = fields(content)[..] else {
                    panic!("{content:?}")
                };
                write!(what, " process {pid} \"{}\"", text(name))
            }
            4 => {
                let [(1, pid, _), (2, tid, _), (5, _, name)] = fields(content)[..] else {
                    panic!("{content:?}")
                };
                write!(what, " thread {tid} of {pid} \"{}\"", text(name))
            }
            8 => write!(what, " counter"),
            11 => write!(what, " ordering {value}"),
            12 => write!(what, " rank {value}"),
            15 => write!(what, " merge {value}"),
            other => panic!("track field {other}"),
        };
    }
    Packet::Track {
        id,
        parent,
        what: what.trim_start().to_owned(),
    }
}

fn event(at: u64, content: &[u8], tables: &HashMap<(u64, u64), String>) -> Packet {
    let (mut track, mut kind, mut label, mut flow, mut notes) =
        (0, 0, String::new(), None, String::new());
    for (number, value, content) in fields(content) {
        let _ = match number {
            3 => write!(label, " {}", tables[&(1, value)]),
            4 => {
                let [(1, name, _), (kind, value, content)] = fields(content)[..] else {
                    panic!("{content:?}")
                };
                let value = match kind {
                    3 => value.to_string(),
                    4 => value.cast_signed().to_string(),
                    5 => f64::from_bits(value).to_string(),
                    7 => format!("{value:#x}"),
                    6 => format!("{:?}", text(content)),
                    other => panic!("annotation field {other}"),
                };
                write!(notes, " {}={value}", tables[&(3, name)])
            }
            9 => {
                kind = value;
                Ok(())
            }
            10 => write!(label, " \"{}\"", tables[&(2, value)]),
            11 => {
                track = value;
                Ok(())
            }
            30 => write!(label, " {}", value.cast_signed()),
            47 | 48 => {
                flow = Some((number == 47, value));
                Ok(())
            }
            other => panic!("event field {other}"),
        };
    }
    Packet::Event {
        at,
        track,
        kind,
        label,
        flow,
        notes,
    }
}

/// Invariants of every file.
pub struct Balance;

impl Balance {
    /// Checks that tracks come before their events and children; times of a track never decrease;
    /// slices end, and not before they begin; flows begin once and end once, later.
    pub fn check(packets: &Packets) {
        let mut tracks: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut flows: BTreeMap<u64, (bool, u64)> = BTreeMap::new();
        for packet in &packets.packets {
            match packet {
                Packet::Track { id, parent, .. } => {
                    assert!(
                        *id != 0 && (*parent == 0 || tracks.contains_key(parent)),
                        "{packet:?}"
                    );
                    tracks.entry(*id).or_default();
                }
                Packet::Event {
                    at,
                    track,
                    kind,
                    label,
                    flow,
                    ..
                } => {
                    let (last, depth) = tracks
                        .get_mut(track)
                        .unwrap_or_else(|| panic!("{packet:?}"));
                    assert!(*last <= *at, "{packet:?}");
                    *last = *at;
                    match kind {
                        1 => {
                            assert!(label.contains('"'), "{packet:?}");
                            *depth += 1;
                        }
                        2 => *depth = depth.checked_sub(1).unwrap_or_else(|| panic!("{packet:?}")),
                        _ => {}
                    }
                    match flow {
                        Some((true, flow)) => {
                            assert_eq!(flows.insert(*flow, (false, *at)), None, "{packet:?}")
                        }
                        Some((false, flow)) => {
                            let (ended, since) =
                                flows.get_mut(flow).unwrap_or_else(|| panic!("{packet:?}"));
                            assert!(!*ended && *since <= *at, "{packet:?}");
                            *ended = true;
                        }
                        None => {}
                    }
                }
            }
        }
        assert_eq!(
            tracks.iter().find(|(_, (_, depth))| *depth != 0),
            None,
            "open slices"
        );
        assert_eq!(
            flows.iter().find(|(_, (ended, _))| !ended),
            None,
            "open flows"
        );
    }
}
