//! How losses are reported: in which packet, and where among its records.

use super::*;

fn dropped_behind<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = form::<R>(memory(), &config(Overflow::Discard, Consumer::Host, 256, 4));
    let live = memory.live();
    let mut reader = events(&live);
    let mut scratch = vec![0; reader.scratch_words()];
    let mut dropped = |reader: &mut ChannelReader| {
        let mut dropped = Vec::new();
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            dropped.push(batch.losses().dropped);
            while batch.next_record(&RECORDS).is_some() {}
            reader.release(&live).unwrap();
        }
        dropped
    };
    // Seventeen records fill a packet; five find all four full.
    (0..4 * 17 + 5).for_each(|seq| emit::<R>(2, seq));
    assert_eq!(
        dropped(&mut reader),
        [0; 4],
        "{}: they were dropped behind all records",
        std::any::type_name::<R>()
    );
    assert_eq!(reader.losses().dropped, 5);
    emit::<R>(2, 100);
    assert_eq!(dropped(&mut reader).last(), Some(&5), "and before this one");
}

/// A packet that was full when events were dropped tells how many; they lie behind its records, not
/// before them.
#[test]
fn what_a_full_ring_drops_lies_behind_its_records() {
    dropped_behind::<Masked<NoInterrupts>>();
    #[cfg(target_pointer_width = "64")]
    dropped_behind::<LocalCas>();
}
