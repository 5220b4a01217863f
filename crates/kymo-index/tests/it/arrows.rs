//! Arrows of an index, compared with those of the whole trace.

use kymo_index::Arrow;
use kymo_timeline::TrackId;

use crate::made::{Folder, Random, index, machine};

#[test]
fn arrows_are_those_of_the_whole_trace() {
    let mut found = 0;
    for seed in 1..9 {
        let folder = Folder::new();
        let mut made = machine(seed, 4_000);
        let (map, parts) = index(made.finish(), &folder, 300);
        let whole_folder = Folder::new();
        let (_, whole) = index(made.finish(), &whole_folder, u64::MAX);
        let tracks: Vec<TrackId> = whole.registry().tracks().map(|(id, _)| id).collect();
        let all = whole.arrows(&map, &tracks, whole.span()).unwrap();
        assert!(all.is_whole);
        let mut random = Random::new(seed);
        let span = whole.span();
        for _ in 0..50 {
            let from = span.start + random.below(span.end - span.start);
            let to = (from + random.below((span.end - span.start) / 20)).min(span.end);
            let some = &tracks[random.below(tracks.len() as u64) as usize..];
            let arrows = parts.arrows(&map, some, from..to).unwrap();
            let is_inside = |at: u64| (from..=to).contains(&at);
            let is_here = |arrow: &&Arrow| {
                [arrow.from, arrow.to]
                    .iter()
                    .any(|end| some.contains(&end.track) && is_inside(end.at))
            };
            let wanted: Vec<&Arrow> = all.arrows.iter().filter(is_here).collect();
            for arrow in &arrows.arrows {
                assert!(wanted.contains(&arrow), "{seed} {from}..{to} {arrow:?}");
            }
            // Of one that reaches out, the other end may be in a part that was not read.
            for arrow in wanted {
                let has = arrows.arrows.contains(arrow);
                let reaches_out = !is_inside(arrow.from.at) || !is_inside(arrow.to.at);
                assert!(
                    has || reaches_out || !arrows.is_whole,
                    "{seed} {from}..{to} lacks {arrow:?}"
                );
                found += u32::from(has);
            }
        }
    }
    assert!(found > 100, "{found}");
}
