//! Windows of an index, compared with all slices of the trace.

use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use kymo_ctf::{Follower, TraceMap};
use kymo_index::{Content, Index, Live, Options, RowId, RowKind, Run, Values, Window};
use kymo_made::{Made, US};

use crate::made::{Folder, Random, grown, index, machine, recorded};

/// The index, and one whose only chunk is the whole trace.
struct Both {
    map: TraceMap,
    index: Index,
    rows: Vec<RowId>,
    whole: Vec<Content>,
}

impl Both {
    fn new(seed: u64, events: u64, chunk_events: u64) -> Both {
        Both::of(&mut machine(seed, events), chunk_events)
    }

    fn of(made: &mut Made, chunk_events: u64) -> Both {
        let folder = Folder::new();
        let (map, index) = index(made.finish(), &folder, chunk_events);
        let whole_folder = Folder::new();
        let (_, whole) = crate::made::index(made.finish(), &whole_folder, u64::MAX);
        assert!(whole.registry() == index.registry());
        assert_eq!(whole.span(), index.span());
        assert_eq!(whole.events(), index.events());
        let rows: Vec<RowId> = (0..whole.registry().rows().len() as RowId).collect();
        let all = whole.window(&map, &rows, whole.span(), u32::MAX).unwrap();
        assert!(all.is_exact);
        Both {
            map,
            index,
            rows,
            whole: all.rows,
        }
    }

    fn window(&self, time: Range<u64>, columns: u32) -> Window {
        self.index
            .window(&self.map, &self.rows, time, columns)
            .unwrap()
    }
}

/// Compares what a row has in a window with all slices of the row: the runs stand for slices in
/// succession, none of them left out, from the first that reaches into the window to the last.
fn check_runs(runs: &[Run], slices: &[Run], time: &Range<u64>, resolution: u64) {
    let is_inside = |slice: &Run| slice.begin < time.end && slice.end >= time.start;
    let Some(first) = runs.first() else {
        let missing = slices.iter().find(|slice| is_inside(slice));
        assert_eq!(missing, None, "{time:?}");
        return;
    };
    let begins = |slice: &Run| match first.is_cut_before {
        true => slice.begin < first.begin && slice.end > first.begin,
        false => slice.begin == first.begin,
    };
    // A slice without length may begin where another one does.
    let mut places = (0..slices.len()).filter(|place| begins(&slices[*place]));
    let compared = |place| compare(runs, &slices[place..], time, resolution);
    let first = places
        .next()
        .unwrap_or_else(|| panic!("{first:?} is no slice"));
    let (place, used) = match (compared(first), places.next()) {
        (Ok(used), _) => (first, used),
        (Err(_), Some(next)) => (next, compared(next).unwrap()),
        (Err(what), None) => panic!("{what}"),
    };
    let others = slices[..place].iter().chain(&slices[place + used..]);
    let missing = others.filter(|slice| is_inside(slice));
    let missing: Vec<&Run> = missing.filter(|slice| slice.end > slice.begin).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} in {time:?} by {resolution}"
    );
}

/// Compares runs with slices from the first on; gives for how many they stand.
fn compare(
    runs: &[Run],
    slices: &[Run],
    time: &Range<u64>,
    resolution: u64,
) -> Result<usize, String> {
    let mut used = 0;
    for run in runs {
        let all = slices.get(used..used + run.count as usize);
        let all = all.ok_or_else(|| format!("{run:?} has too many"))?;
        used += all.len();
        let (first, last) = (all[0], all[all.len() - 1]);
        let length = |slice: &Run| slice.end - slice.begin;
        let longest = all.iter().map(length).max().unwrap();
        let named = all.iter().find(|slice| length(slice) == longest).unwrap();
        let wanted = match run.is_cut_before || run.is_cut_behind {
            // It is cut only outside of the window.
            true => {
                let (begin, end) = (run.begin, run.end);
                let is_outside = (!run.is_cut_before || begin <= time.start)
                    && (!run.is_cut_behind || end >= time.end)
                    && (first.begin < begin) == run.is_cut_before
                    // It may end where it is cut.
                    && (first.end == end || run.is_cut_behind && first.end > end);
                Run {
                    is_cut_before: run.is_cut_before,
                    is_cut_behind: run.is_cut_behind,
                    count: u64::from(is_outside),
                    ..Run::slice(begin, end, first.name)
                }
            }
            false => Run {
                count: all.len() as u64,
                busy: all.iter().map(length).sum(),
                longest,
                ..Run::slice(first.begin, last.end, named.name)
            },
        };
        if *run != wanted || (run.count > 1 && length(run) > resolution) {
            return Err(format!(
                "{run:?}, not {wanted:?}, in {time:?} by {resolution}"
            ));
        }
    }
    Ok(used)
}

fn check_values(some: &[Values], all: &[Values], time: &Range<u64>, resolution: u64) {
    let mut before = 0;
    for values in some {
        let case = format!("{values:?} in {time:?} by {resolution}");
        assert!(values.begin >= before, "{case}");
        before = values.end;
        let inside = all.iter();
        let inside = inside.filter(|one| one.begin >= values.begin && one.end <= values.end);
        let inside: Vec<&Values> = inside.collect();
        match values.count {
            0 => {
                let earlier = all.partition_point(|one| one.begin <= values.begin);
                assert_eq!(all[earlier - 1].last, values.last, "{case}");
            }
            count => {
                assert_eq!(count, inside.len() as u64, "{case}");
                assert!(values.end - values.begin <= resolution, "{case}");
                let last = inside[inside.len() - 1].last;
                assert_eq!(values.last, last, "{case}");
                let lasts = || inside.iter().map(|one| one.last);
                // The value before may be the least or the greatest, too.
                assert!(values.min <= lasts().min().unwrap(), "{case}");
                assert!(values.max >= lasts().max().unwrap(), "{case}");
            }
        }
    }
    let in_window = |one: &&Values| time.contains(&one.begin);
    let wanted = all.iter().filter(in_window).count() as u64;
    let shown = some.iter().filter(|one| one.end >= time.start);
    assert!(
        shown.map(|one| one.count).sum::<u64>() >= wanted,
        "{time:?}"
    );
    if let Some(first) = all.first().filter(|first| first.begin < time.start) {
        assert!(
            some.first().is_some_and(|some| some.begin <= time.start),
            "{first:?} {time:?}"
        );
    }
}

fn check(both: &Both, window: &Window, time: &Range<u64>) {
    for (row, whole) in window.rows.iter().zip(&both.whole) {
        match (row, whole) {
            (Content::Runs(runs), Content::Runs(slices)) => {
                check_runs(runs, slices, time, window.resolution);
            }
            (Content::Values(some), Content::Values(all)) => {
                check_values(some, all, time, window.resolution);
            }
            (Content::Runs(none), Content::Values(all)) => {
                assert!(none.is_empty() && all[0].begin >= time.start, "{time:?}");
            }
            _ => panic!("{row:?} {whole:?}"),
        }
    }
}

#[test]
fn every_window_is_what_the_slices_make_of_it() {
    let (mut exact, mut merged) = (0, 0);
    for seed in 0..8 {
        let both = Both::new(seed, 3_000, 6 + seed * 3);
        let mut random = Random::new(seed + 100);
        let span = both.index.span();
        for _ in 0..150 {
            let most = span.end - span.start;
            let shorter = random.below(12);
            let length = 1 + random.below(most >> shorter);
            let begin = span.start + random.below(most);
            let time = begin..begin + length;
            let columns = 1 + random.below(3_000) as u32;
            let window = both.window(time.clone(), columns);
            match window.is_exact {
                true => exact += 1,
                false => merged += 1,
            }
            check(&both, &window, &time);
        }
        let window = both.window(span.clone(), 500);
        assert!(!window.is_exact);
        check(&both, &window, &span);
    }
    assert!(exact > 100 && merged > 100, "{exact} {merged}");
}

/// What has been read of a trace is shown as it is in the end, in windows up to there, also from
/// another thread than the one that reads.
#[test]
fn an_index_that_grows_shows_what_has_been_read() {
    let (mut exact, mut merged) = (0, 0);
    for seed in 0..4 {
        let both = Both::new(seed, 3_000, 8);
        let folder = Folder::new();
        let mut made = machine(seed, 3_000);
        let mut random = Random::new(seed + 200);
        let (sender, receiver) = mpsc::channel();
        let (_, last) = grown(made.finish(), &folder, 8, |growing| {
            if random.below(4) == 0 {
                sender
                    .send((growing.events(), growing.index().unwrap()))
                    .unwrap();
            }
        });
        drop(sender);
        assert!(last.is_whole());
        let grown: Vec<(u64, Index)> = receiver.iter().collect();
        assert!(grown.len() > 10);
        for (events, index) in &grown {
            assert!(!index.is_whole() && index.events() == *events);
            let span = index.span();
            assert!(span.start == both.index.span().start && span.end <= both.index.span().end);
            // A row that has not appeared has nothing.
            for _ in 0..20 {
                let shorter = random.below(8);
                let length = 1 + random.below((span.end - span.start) >> shorter);
                let begin = span.start + random.below(span.end - span.start - length + 1);
                let (time, columns) = (begin..begin + length, 1 + random.below(1_000) as u32);
                let window = index.window(&both.map, &both.rows, time.clone(), columns);
                let window = window.unwrap();
                match window.is_exact {
                    true => exact += 1,
                    false => merged += 1,
                }
                check(&both, &window, &time);
            }
        }
    }
    assert!(exact > 100 && merged > 100, "{exact} {merged}");
}

/// A look at an index of a trace that was still recorded: the index, and the bytes it needs.
type Look = (Index, TraceMap);

/// Indexes of a random machine's trace while it is recorded, and the machine's trace.
fn live(seed: u64, losses: bool, chunk_events: u64, folder: &Folder) -> (Vec<Look>, Live, Made) {
    let mut looks = Vec::new();
    let mut follow: Option<(Follower, Option<Live>)> = None;
    let mut look = |made: &mut Made| {
        let path = made.finish();
        let (follower, live) =
            follow.get_or_insert_with(|| (Follower::new(path, Duration::ZERO), None));
        let Some(mut step) = follower.look().unwrap() else {
            return;
        };
        let live = live.get_or_insert_with(|| {
            let options = Options { chunk_events };
            Live::new(&folder.0, step.begin_nanos(), options).unwrap()
        });
        if live.add(&mut step).unwrap() > 0 {
            let map = step.into_map();
            looks.push((live.index(follower.late()).unwrap(), map));
        }
    };
    let mut made = recorded(seed, 3_000, losses, &mut look);
    look(&mut made);
    look(&mut made);
    let (_, live) = follow.unwrap();
    (looks, live.unwrap(), made)
}

/// What has been recorded of a trace is shown as it is in the end, up to the newest event.
#[test]
fn an_index_of_a_trace_that_is_recorded_shows_it_so_far() {
    let (mut exact, mut merged) = (0, 0);
    for seed in 0..4 {
        let folder = Folder::new();
        let (looks, live, mut made) = live(seed, false, 8, &folder);
        let both = Both::of(&mut made, 8);
        let mut random = Random::new(seed + 300);
        assert!(looks.len() > 20);
        let mut reach = 0;
        for (index, map) in &looks {
            let span = index.span();
            assert!(!index.is_whole() && span.end > reach && index.damage(map).is_empty());
            assert_eq!(span.start, both.index.span().start);
            reach = span.end;
            for _ in 0..20 {
                let shorter = random.below(8);
                let length = 1 + random.below((span.end - span.start) >> shorter);
                let begin = span.start + random.below(span.end - span.start - length + 1);
                let (time, columns) = (begin..begin + length, 1 + random.below(1_000) as u32);
                let window = index
                    .window(map, &both.rows, time.clone(), columns)
                    .unwrap();
                match window.is_exact {
                    true => exact += 1,
                    false => merged += 1,
                }
                check(&both, &window, &time);
            }
        }
        let (last, _) = looks.last().unwrap();
        assert_eq!(last.events(), both.index.events());
        assert!(last.span() == both.index.span() && last.registry() == both.index.registry());
        drop(live);
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }
    assert!(exact > 100 && merged > 100, "{exact} {merged}");
}

/// A live index learns of a loss after the events beside it. So its rows and names may have other
/// numbers than those of an index that is made afterwards, but it has the same losses.
#[test]
fn an_index_of_a_trace_that_is_recorded_has_its_losses() {
    let all = |index: &Index, map: &TraceMap| {
        let rows: Vec<RowId> = (0..index.registry().rows().len() as RowId).collect();
        let window = index.window(map, &rows, index.span(), u32::MAX).unwrap();
        let mut slices = Vec::new();
        for (row, content) in rows.iter().zip(window.rows) {
            let row = index.registry().rows()[*row as usize];
            if let Content::Runs(runs) = content {
                let name = |run: &Run| index.registry().names()[run.name as usize].text.clone();
                // What is open ends with the last event, or behind it.
                let end = |run: &Run| run.end.min(index.span().end - 1);
                slices.extend(
                    runs.iter()
                        .map(|run| (row.track, run.begin, end(run), run.count, name(run))),
                );
            }
        }
        slices.retain(|slice| slice.4.contains("lost"));
        slices.sort();
        slices
    };
    let mut losses = 0;
    for seed in 0..4 {
        let folder = Folder::new();
        let (looks, _live, mut made) = live(seed, true, 250, &folder);
        // So large that all is one chunk, and exact.
        let whole_folder = Folder::new();
        let (map, whole) = index(made.finish(), &whole_folder, u64::MAX);
        let wanted = all(&whole, &map);
        losses += wanted.len();
        let (last, map) = looks.last().unwrap();
        // It has several chunks, at whose ends slices are cut and put together again.
        let found = all(last, map);
        let differs = found.iter().zip(&wanted).find(|(one, other)| one != other);
        assert_eq!(differs, None);
        assert_eq!(found.len(), wanted.len());
    }
    assert!(losses > 4, "{losses}");
}

/// The rows of the random machines have all that can be reduced.
#[test]
fn the_traces_have_rows_of_every_kind() {
    let both = Both::new(3, 3_000, 50);
    let rows = both.index.registry().rows();
    for kind in [
        RowKind::Slices(0),
        RowKind::Slices(1),
        RowKind::Points,
        RowKind::Values,
    ] {
        let mut with = rows
            .iter()
            .zip(&both.whole)
            .filter(|(row, _)| row.kind == kind);
        let has_many = |content: &Content| match content {
            Content::Runs(runs) => runs.len() > 10,
            Content::Values(values) => values.len() > 10,
        };
        assert!(with.any(|(_, content)| has_many(content)), "{kind:?}");
    }
    let tracks: Vec<&str> = both
        .index
        .registry()
        .tracks()
        .map(|(_, track)| &*track.name)
        .collect();
    for name in [
        "CPU 0",
        "CPU 2 interrupts",
        "worker 1",
        "state",
        "Lost",
        "locks held",
    ] {
        assert!(tracks.contains(&name), "{name}: {tracks:?}");
    }
}

/// Beside every slice of a system call stand its fields, also from checkpoints far in the trace.
#[test]
fn slices_have_the_fields_of_their_events() {
    let both = Both::new(2, 2_000, 70);
    let registry = both.index.registry();
    let (mut calls, mut ended) = (0, 0);
    for (row, whole) in both.rows.iter().zip(&both.whole) {
        let Content::Runs(slices) = whole else {
            continue;
        };
        for slice in slices {
            let name = &registry.names()[slice.name as usize];
            if name.category != "syscall" {
                continue;
            }
            let notes = both.index.notes(&both.map, *row, slice.begin).unwrap();
            let has =
                |note: &str, value: &str| notes.contains(&(note.to_owned(), value.to_owned()));
            assert!(has("arg0", "0"), "{slice:?} {notes:?}");
            ended += u32::from(has("ret", "0"));
            calls += 1;
        }
    }
    // Others end in the next chunk, or not at all.
    assert!(calls > 30 && ended > 5, "{calls} {ended}");
    let row = both.rows[0];
    assert_eq!(both.index.notes(&both.map, row, 3).unwrap(), []);
    assert_eq!(both.index.notes(&both.map, 99_999, 3).unwrap(), []);
}

/// A window of any size is answered, and has everything.
#[test]
fn the_largest_window_has_everything() {
    let both = Both::new(5, 2_000, 70);
    for columns in [0, 1, u32::MAX] {
        let time = 0..u64::MAX;
        let window = both.window(time.clone(), columns);
        assert!(!window.is_exact);
        check(&both, &window, &time);
    }
    let window = both.window(u64::MAX..u64::MAX, 1);
    assert!(window.rows.iter().all(|row| match row {
        Content::Runs(runs) => runs.is_empty(),
        Content::Values(values) => values.len() <= 1,
    }));
}

/// A short window shows slices as they are, with their names.
#[test]
fn a_short_window_has_every_slice() {
    let both = Both::new(1, 2_000, 100);
    let span = both.index.span();
    let time = span.start + 2_000 * US..span.start + 8_000 * US;
    let window = both.window(time.clone(), 100_000);
    assert!(window.is_exact && window.resolution < US);
    let mut count = 0;
    for (row, whole) in window.rows.iter().zip(&both.whole) {
        let (Content::Runs(runs), Content::Runs(slices)) = (row, whole) else {
            continue;
        };
        assert!(runs.iter().all(|run| run.count == 1));
        let inside = slices.iter();
        let inside = inside.filter(|slice| slice.begin < time.end && slice.end >= time.start);
        assert_eq!(runs.len(), inside.count());
        count += runs.len();
    }
    assert!(count > 50, "{count}");
}
