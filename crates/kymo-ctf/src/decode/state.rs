//! Values that fields store for later fields (slots), and for the reader (roles).

use crate::class::wide_int::WideInt;
use crate::class::{LEAST, NO_SLOT, Role, Roles};
use crate::decode::bits::low_mask;
use crate::error::DecodeError;

/// Slot value of a field in an absent optional field or in an option that is not selected.
pub(crate) const ABSENT: i128 = i128::MIN;
/// Slot value of a field whose value does not fit into a slot and is stored separately.
pub(crate) const WIDE: i128 = i128::MIN + 1;

/// Values of the integers that hold lengths, tags and selectors. A dependent field always comes
/// after the field it depends on, so each slot is set, to a value or to [`ABSENT`], before it is
/// used.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    /// Most traces need only these, and copying them is cheap.
    few: [i128; FEW],
    more: Option<Box<More>>,
}

/// Slots beyond the first few, and wide values.
#[derive(Debug, Clone, Default)]
struct More {
    cells: Vec<i128>,
    /// Values that do not fit into a slot, by slot.
    wide: Vec<(u32, WideInt)>,
}

const FEW: usize = 4;

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let more = (count as usize).saturating_sub(FEW);
        Slots {
            few: [0; FEW],
            more: (more > 0).then(|| {
                Box::new(More {
                    cells: vec![0; more],
                    wide: Vec::new(),
                })
            }),
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> i128 {
        let slot = slot as usize;
        let cell = self
            .few
            .get(slot)
            .or_else(|| self.more.as_ref()?.cells.get(slot.wrapping_sub(FEW)));
        cell.copied().unwrap_or(0)
    }

    /// The length in a slot; `None` if the field is absent or the length exceeds 64 bits. Only
    /// unsigned integers hold lengths.
    #[inline]
    pub(crate) fn length(&self, slot: u32) -> Option<u64> {
        u64::try_from(self.get(slot)).ok()
    }

    /// The length in a slot, or the error why there is none.
    pub(crate) fn checked_length(&self, slot: u32) -> Result<u64, DecodeError> {
        match self.exact(slot) {
            _ if self.get(slot) == ABSENT => Err(DecodeError::AbsentField),
            length => length.to_u64().ok_or(DecodeError::WideLength(length)),
        }
    }

    /// The value in a slot, of any size.
    pub(crate) fn exact(&self, slot: u32) -> WideInt {
        self.wide(slot)
            .cloned()
            .unwrap_or_else(|| self.get(slot).into())
    }

    /// The value, if it does not fit into a slot.
    #[inline]
    pub(crate) fn wide(&self, slot: u32) -> Option<&WideInt> {
        if self.get(slot) == WIDE {
            self.beside(slot)
        } else {
            None
        }
    }

    #[cold]
    fn beside(&self, slot: u32) -> Option<&WideInt> {
        let (_, value) = self
            .more
            .as_ref()?
            .wide
            .iter()
            .find(|(of, _)| *of == slot)?;
        Some(value)
    }

    /// Stores a value of any size.
    pub(crate) fn set_wide(&mut self, slot: u32, value: &WideInt) {
        if slot == NO_SLOT {
            return;
        }
        if let Some(value) = value.to_i128().filter(|value| *value >= LEAST) {
            return self.set(slot, value);
        }
        self.set(slot, WIDE);
        let all = &mut self.more.get_or_insert_default().wide;
        match all.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, cell)) => *cell = value.clone(),
            None => all.push((slot, value.clone())),
        }
    }

    /// Marks these fields absent, until they are read.
    #[inline]
    pub(crate) fn clear(&mut self, slots: &[u32]) {
        slots.iter().for_each(|slot| self.set(*slot, ABSENT));
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: u32, value: i128) {
        if slot == NO_SLOT {
            return;
        }
        let slot = slot as usize;
        if let Some(cell) = self.few.get_mut(slot) {
            *cell = value;
        } else if let Some(cell) = self
            .more
            .as_mut()
            .and_then(|more| more.cells.get_mut(slot - FEW))
        {
            *cell = value;
        }
    }
}

/// Values of fields with roles, by role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    values: [Option<(u64, u8)>; Role::COUNT],
    /// Times before the last one, and their sizes. Known tracers write only one.
    times: Vec<(u64, u8)>,
    /// Bit positions of UUIDs.
    pub(crate) uuids: Vec<u64>,
}

impl Seen {
    /// Stores a value of more than 64 bits.
    ///
    /// Only the low bits of a stream's id and of counters are kept: they suffice to distinguish
    /// streams and to compute a counter's growth. A wide CPU number is an ordinary value.
    pub(crate) fn note_wide(&mut self, roles: Roles, value: &WideInt) -> Result<(), DecodeError> {
        const COUNTERS: [Role; 2] = [Role::DiscardedEvents, Role::PacketSequenceNumber];
        for role in ALL.into_iter().filter(|role| roles.has(*role)) {
            match role {
                Role::StreamId => self.note(Roles::NONE.with(role), value.low(), 64),
                _ if COUNTERS.contains(&role) => {
                    self.note(Roles::NONE.with(role), value.low(), LOW_64)
                }
                Role::CpuId => {}
                _ => {
                    return Err(DecodeError::TooLarge {
                        what: meaning(role),
                        value: value.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, roles: Roles, value: u64, size: u8) {
        if roles.has(Role::Timestamp) {
            self.times.extend(self.get(Role::Timestamp));
        }
        for role in roles.discriminants() {
            if let Some(cell) = self.values.get_mut(role) {
                *cell = Some((value, size));
            }
        }
    }

    /// The time as low bits of the clock, and their number, given the previous clock value `now`.
    /// Each of several times continues from the previous one (CTF 2, section 6.3).
    pub(crate) fn time(&self, now: u64) -> Option<(u64, u8)> {
        let last = self.get(Role::Timestamp)?;
        if self.times.is_empty() {
            return Some(last);
        }
        let all = self.times.iter().chain([&last]);
        let time = all.fold(now, |now, &(low, size)| {
            let (Tick::To(time) | Tick::Back(time)) = tick(now, low, size, u64::MAX);
            time
        });
        Some((time, 64))
    }

    /// The last value of this role, and its size in bits.
    pub(crate) fn get(&self, role: Role) -> Option<(u64, u8)> {
        self.values.get(role as usize).copied().flatten()
    }

    pub(crate) fn value(&self, role: Role) -> Option<u64> {
        self.get(role).map(|(value, _)| value)
    }
}

/// Stands for the size of a counter of which only the low 64 bits are known.
pub(crate) const LOW_64: u8 = 65;

/// Description of a number of this role, for messages.
fn meaning(role: Role) -> &'static str {
    match role {
        Role::StreamClassId => "the id of the packet's stream class",
        Role::PacketTotalLength => "the packet's size",
        Role::PacketContentLength => "the size of the packet's content",
        Role::Timestamp | Role::PacketEndTimestamp => "the clock's value",
        Role::EventClassId => "the event's id",
        _ => "a number that the reader needs",
    }
}

/// All roles, in the order of their discriminants.
const ALL: [Role; Role::COUNT] = [
    Role::PacketMagic,
    Role::MetadataUuid,
    Role::StreamClassId,
    Role::StreamId,
    Role::PacketTotalLength,
    Role::PacketContentLength,
    Role::Timestamp,
    Role::PacketEndTimestamp,
    Role::DiscardedEvents,
    Role::PacketSequenceNumber,
    Role::EventClassId,
    Role::CpuId,
];

/// Effect of a timestamp on a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tick {
    /// The clock advances to this value, or stays.
    To(u64),
    /// The clock would step back to this value.
    Back(u64),
}

/// The clock value for the low `size` bits `low` after `now`: the first such value not before
/// `now`.
///
/// This is CTF's rule for timestamps narrower than the clock: smaller low bits mean that they
/// wrapped once. A value of 64 bits is taken as it is. If the wrapped value would be after `end`,
/// the packet's stated end, while the unwrapped one is less than half a turn back, the clock did
/// not wrap but stepped back.
pub(crate) fn tick(now: u64, low: u64, size: u8, end: u64) -> Tick {
    tick_masked(now, low, low_mask(size), end)
}

/// [`tick`] with the mask of the low bits instead of their number.
#[inline(always)]
pub(crate) fn tick_masked(now: u64, low: u64, mask: u64, end: u64) -> Tick {
    let same_turn = now & !mask | low & mask;
    if same_turn >= now {
        return Tick::To(same_turn);
    }
    wrap(now, same_turn, mask, end)
}

#[cold]
fn wrap(now: u64, same_turn: u64, mask: u64, end: u64) -> Tick {
    if mask == u64::MAX {
        return Tick::Back(same_turn);
    }
    match same_turn.checked_add(mask + 1) {
        Some(wrapped) if wrapped <= end || now > end || now - same_turn > mask / 2 => {
            Tick::To(wrapped)
        }
        _ => Tick::Back(same_turn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_timestamps_wrap_forwards() {
        let turn = 1 << 27;
        let after = |now, low, size| tick(now, low, size, u64::MAX);
        assert_eq!(after(0, 5, 27), Tick::To(5));
        assert_eq!(after(5, 5, 27), Tick::To(5));
        assert_eq!(after(6, 5, 27), Tick::To(turn + 5));
        assert_eq!(after(3 * turn + 6, 5, 27), Tick::To(4 * turn + 5));
        assert_eq!(after(100, 7, 64), Tick::Back(7));
        assert_eq!(after(u64::MAX, 0, 27), Tick::Back(!(turn - 1)));
        assert_eq!(after(u64::MAX, 0, 63), Tick::Back(1 << 63));
        assert_eq!(after(1, 0, 1), Tick::To(2));
    }

    #[test]
    fn a_step_back_is_no_wrap_where_the_packet_ends_before() {
        let turn = 1u64 << 32;
        assert_eq!(tick(1000, 990, 32, 2000), Tick::Back(990));
        assert_eq!(tick(1000, 990, 32, turn + 990), Tick::To(turn + 990));
        // The packet's end is wrong, or the step is nearly a whole turn.
        assert_eq!(tick(1000, 990, 32, 999), Tick::To(turn + 990));
        assert_eq!(tick(turn - 1, 0, 32, turn - 1), Tick::To(turn));
    }

    #[test]
    fn roles_are_kept_in_their_place() {
        for (index, role) in ALL.into_iter().enumerate() {
            assert_eq!(role as usize, index);
        }
        let mut seen = Seen::default();
        seen.note(Roles::NONE.with(Role::CpuId).with(Role::StreamId), 7, 16);
        assert_eq!(
            (
                seen.get(Role::CpuId),
                seen.value(Role::StreamId),
                seen.get(Role::EventClassId)
            ),
            (Some((7, 16)), Some(7), None)
        );
    }

    #[test]
    fn of_several_times_each_goes_on_from_the_one_before() {
        let mut seen = Seen::default();
        let time = Roles::NONE.with(Role::Timestamp);
        seen.note(time, 5, 8);
        assert_eq!(seen.time(7), Some((5, 8)));
        seen.note(time, 1000, 32);
        seen.note(time, 1, 8);
        assert_eq!(
            (seen.time(7), seen.get(Role::Timestamp)),
            (Some((1025, 64)), Some((1, 8)))
        );
        assert_eq!(seen.time(2000), Some(((1 << 32) + 1025, 64)));
    }

    #[test]
    fn slots_beyond_the_first_few_are_kept() {
        let mut slots = Slots::new(7);
        (0..7).for_each(|slot| slots.set(slot, i128::from(slot) - 3));
        slots.set(NO_SLOT, 9);
        assert!((0..7).all(|slot| slots.get(slot) == i128::from(slot) - 3));
        assert_eq!(
            (slots.get(8), slots.length(0), slots.length(6)),
            (0, None, Some(3))
        );
        slots.clear(&[1, 6]);
        assert_eq!(
            (slots.get(1), slots.length(6), slots.get(0)),
            (ABSENT, None, -3)
        );
    }

    #[test]
    fn values_that_no_cell_holds_are_kept_beside() {
        let mut slots = Slots::new(6);
        let of = |text: &str| WideInt::from_decimal(text).unwrap();
        let (large, small) = (
            of("340282366920938463463374607431768211456"),
            of("-170141183460469231731687303715884105728"),
        );
        slots.set_wide(5, &large);
        slots.set_wide(1, &small);
        let before = slots.clone();
        slots.set_wide(5, &small);
        slots.set_wide(0, &7_u128.into());
        assert_eq!(
            (slots.exact(5), slots.exact(1), slots.exact(0), slots.get(0)),
            (small.clone(), small, 7_u128.into(), 7)
        );
        assert_eq!(
            (before.wide(5), slots.wide(0), slots.length(5)),
            (Some(&large), None, None)
        );
        assert_eq!(
            before.checked_length(5),
            Err(DecodeError::WideLength(large))
        );
        slots.clear(&[5]);
        assert_eq!(
            (slots.wide(5), slots.checked_length(5)),
            (None, Err(DecodeError::AbsentField))
        );
        slots.set(1, 3);
        assert_eq!((slots.wide(1), slots.checked_length(1)), (None, Ok(3)));
    }
}
