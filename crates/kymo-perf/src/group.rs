//! A group of events that Linux counts for one target.

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};

use kymo::count::{EventSpec, GroupSpec, MAX_EVENTS, Refused, Snapshot};

use crate::attributes::{self, Options};
use crate::error::{self, Error};
use crate::limit::SlotLimit;
use crate::names::{NamedEvent, NamedGroup};
use crate::sys::{Control, Linux, Scope, System};
use crate::target::Target;
use crate::values::{MAX_BYTES, Values};

/// An event of a group. It is a copy of numbers: when the event is detached, every call with the
/// handle fails with [`Refused::Stale`], at once and forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    place: usize,
    /// The kernel's id, which it never gives twice.
    id: u64,
}

impl Handle {
    /// The event's id in a [`Snapshot`].
    pub fn id(self) -> u64 {
        self.id
    }
}

/// Events that count for one target at the same time or not at all.
///
/// The first event that is added leads the group. Nothing counts before [`start`](Group::start).
/// The group ends when it is dropped.
#[derive(Debug)]
pub struct Group<S: System = Linux> {
    system: S,
    target: Target,
    options: Options,
    limit: SlotLimit,
    is_counting: bool,
    /// The leader first, at its place. A detached member leaves its place empty.
    events: [Option<Opened<S::Event>>; MAX_EVENTS],
    /// The times when the group was started.
    from: Times,
}

#[derive(Debug)]
struct Opened<E> {
    event: E,
    id: u64,
    spec: EventSpec,
    name: String,
    /// The count when the group was started. It is not always 0: what inherited events counted in
    /// threads that have ended cannot be reset.
    from: u64,
}

/// Linux resets counts, but never times.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    enabled: u64,
    running: u64,
}

impl Group<Linux> {
    /// A group without events, for a target.
    pub fn new(target: Target, options: Options, limit: SlotLimit) -> Group<Linux> {
        Group::on(Linux, target, options, limit)
    }

    /// A group with these events, which does not count yet.
    ///
    /// # Errors
    /// Those of [`add`](Group::add).
    pub fn open(
        target: Target,
        events: &GroupSpec,
        options: Options,
        limit: SlotLimit,
    ) -> Result<Group<Linux>, Error> {
        Group::open_named(target, &(*events).into(), 0, options, limit)
    }

    /// A group with events by name, which does not count yet. Of events that several PMUs count,
    /// each has a group of its own: that of the PMU numbered `copy`, from 0 to
    /// [`NamedGroup::copies`].
    ///
    /// # Errors
    /// Those of [`add`](Group::add).
    pub fn open_named(
        target: Target,
        events: &NamedGroup,
        copy: usize,
        options: Options,
        limit: SlotLimit,
    ) -> Result<Group<Linux>, Error> {
        // Nothing is opened of a group that cannot be.
        events.spec.fits(limit.slots)?;
        let mut group = Group::new(target, options, limit);
        for (at, (event, name)) in events.spec.events().iter().zip(&events.names).enumerate() {
            let event = NamedEvent {
                event: *event,
                name: name.clone(),
                pmus: events.pmu(at, copy).cloned().into_iter().collect(),
            };
            group.add(event)?;
        }
        Ok(group)
    }

    /// A group whose leader is open already, by this library or by any other code: its descriptor
    /// (`group_fd` of `perf_event_open(2)`), and what it counts for whom. Members are added as to
    /// any group.
    ///
    /// # Errors
    /// [`Error::NoLeader`] if the descriptor is not that of an event that leads a group without
    /// members, and is read with both times and its id (`PERF_FORMAT_GROUP`, `PERF_FORMAT_ID`,
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`, no others).
    pub fn led_by(
        leader: OwnedFd,
        event: impl Into<NamedEvent>,
        target: Target,
        options: Options,
        limit: SlotLimit,
    ) -> Result<Group<Linux>, Error> {
        let group = Group::new(target, options, limit);
        group.with_leader(File::from(leader), event.into())
    }
}

impl<S: System> Group<S> {
    pub(crate) fn on(system: S, target: Target, options: Options, limit: SlotLimit) -> Group<S> {
        Group {
            system,
            target,
            options,
            limit,
            is_counting: false,
            events: [const { None }; MAX_EVENTS],
            from: Times::default(),
        }
    }

    /// For whom it counts.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The handles of the events, the leader's first.
    pub fn handles(&self) -> impl Iterator<Item = Handle> {
        let places = self.events.iter().enumerate();
        places.filter_map(|(place, event)| {
            let id = event.as_ref()?.id;
            Some(Handle { place, id })
        })
    }

    /// Adds an event, an [`EventSpec`] or a [`NamedEvent`]. If the group counts, all of it starts
    /// again from zero, so that the counts stay those of the same time.
    ///
    /// Of several PMUs that count the event, the first does here.
    ///
    /// # Errors
    /// [`Refused::TooManyEvents`], [`Refused::TooManySlots`], or what the kernel says. The group
    /// is then as it was; only if it cannot be started again, it is stopped.
    pub fn add(&mut self, event: impl Into<NamedEvent>) -> Result<Handle, Error> {
        self.attach(event.into(), None)
    }

    /// Adds an event that runs an eBPF program, by the program's descriptor: at each event for a
    /// tracepoint, else each time when [`EventSpec::period`] events have happened, of which 0
    /// stands for a million.
    ///
    /// # Errors
    /// Those of [`add`](Group::add), and [`Error::Program`].
    pub fn add_with_program(
        &mut self,
        event: impl Into<NamedEvent>,
        program: BorrowedFd<'_>,
    ) -> Result<Handle, Error> {
        self.attach(event.into(), Some(program))
    }

    /// The group, still empty, with this event as its leader.
    pub(crate) fn with_leader(mut self, event: S::Event, named: NamedEvent) -> Result<Self, Error> {
        self.place_for(named.event)?;
        let no_leader = |source| Error::NoLeader {
            event: named.name.clone(),
            source,
        };
        let id = self
            .system
            .id(&event)
            .map_err(|error| no_leader(Some(error)))?;
        let mut buffer = [0; MAX_BYTES];
        let len = self.system.read(&event, &mut buffer);
        let len = len.map_err(|error| no_leader(Some(error)))?;
        let values = Values::parse(buffer.get(..len).unwrap_or_default());
        if values.is_none_or(|values| values.len() != 1 || values.of(id).is_none()) {
            return Err(no_leader(None));
        }
        let [leader, ..] = &mut self.events;
        *leader = Some(Opened {
            event,
            id,
            spec: named.event,
            name: named.name,
            from: 0,
        });
        Ok(self)
    }

    fn attach(
        &mut self,
        named: NamedEvent,
        program: Option<BorrowedFd<'_>>,
    ) -> Result<Handle, Error> {
        let place = self.place_for(named.event)?;
        let pmu = named.pmus.first();
        let attributes = attributes::of(&named.event, pmu, self.options, program.is_some())?;
        let leader = self.leader().ok().map(|leader| &leader.event);
        let event = self
            .system
            .open(&attributes, self.target, leader)
            .map_err(|source| error::opening(&named, self.target, source))?;
        let id = self.system.id(&event).map_err(|source| Error::System {
            what: "ask for an event's id",
            source,
        })?;
        self.control(&event, Control::Reset, Scope::Event)?;
        if let Some(program) = program {
            let linked = self.system.set_program(&event, program);
            linked.map_err(|source| Error::Program {
                event: named.name.clone(),
                source,
            })?;
        }
        let opened = Opened {
            event,
            id,
            spec: named.event,
            name: named.name,
            from: 0,
        };
        let Some(free) = self.events.get_mut(place) else {
            return Err(Refused::Stale.into());
        };
        *free = Some(opened);
        if self.is_counting
            && let Err(error) = self.start()
        {
            self.events.get_mut(place).map(Option::take);
            return Err(error);
        }
        Ok(Handle { place, id })
    }

    /// Where a new event goes, if the group has room for it.
    fn place_for(&self, event: EventSpec) -> Result<usize, Refused> {
        let mut all = [event; MAX_EVENTS + 1];
        let mut len = 0;
        for (to, from) in all.iter_mut().zip(self.events.iter().flatten()) {
            *to = from.spec;
            len += 1;
        }
        let with = all.get(..=len).unwrap_or_default();
        GroupSpec::new(with)?.fits(self.limit.slots)?;
        let free = self.events.iter().position(Option::is_none);
        free.ok_or(Refused::Stale)
    }

    fn leader(&self) -> Result<&Opened<S::Event>, Refused> {
        let [leader, ..] = &self.events;
        leader.as_ref().ok_or(Refused::Empty)
    }

    fn event(&self, handle: Handle) -> Result<&Opened<S::Event>, Refused> {
        let event = self.events.get(handle.place).and_then(Option::as_ref);
        event
            .filter(|event| event.id == handle.id)
            .ok_or(Refused::Stale)
    }

    fn control(&self, event: &S::Event, control: Control, scope: Scope) -> Result<(), Error> {
        let done = self.system.control(event, control, scope);
        done.map_err(|source| Error::System {
            what: match control {
                Control::Reset => "reset a group",
                Control::Enable => "enable a group",
                Control::Disable => "disable a group",
            },
            source,
        })
    }

    /// Starts all events from zero.
    ///
    /// # Errors
    /// [`Refused::Empty`]. If the kernel fails, the group is stopped, and its counts may be gone.
    pub fn start(&mut self) -> Result<(), Error> {
        self.stop()?;
        let leader = &self.leader()?.event;
        self.control(leader, Control::Reset, Scope::Group)?;
        let values = self.values()?;
        for opened in self.events.iter_mut().flatten() {
            opened.from = values.of(opened.id).unwrap_or(0);
        }
        self.from = Times {
            enabled: values.time_enabled,
            running: values.time_running,
        };
        self.resume()
    }

    /// Stops counting. The counts stay.
    ///
    /// # Errors
    /// [`Refused::Empty`].
    pub fn stop(&mut self) -> Result<(), Error> {
        self.control(&self.leader()?.event, Control::Disable, Scope::Group)?;
        self.is_counting = false;
        Ok(())
    }

    /// Goes on counting after [`stop`](Group::stop).
    ///
    /// # Errors
    /// [`Refused::Empty`].
    pub fn resume(&mut self) -> Result<(), Error> {
        let leader = &self.leader()?.event;
        // The members first, which wait for their leader: then all begin at the same time. Linux
        // 6.18 leaves a member off that is of another PMU than its leader, if the leader counts
        // already.
        for member in self.events.iter().skip(1).flatten() {
            self.control(&member.event, Control::Enable, Scope::Event)?;
        }
        self.control(leader, Control::Enable, Scope::Group)?;
        self.is_counting = true;
        Ok(())
    }

    /// All counts, taken at the same time, by one system call. [`Snapshot::raw`] is the count of
    /// the handle's event, found by its id.
    ///
    /// # Errors
    /// [`Refused::Stale`], [`Error::BadRead`].
    pub fn read(&self, handle: Handle) -> Result<Snapshot, Error> {
        self.event(handle)?;
        self.snapshot(handle.id)
    }

    /// All counts; [`Snapshot::raw`] is the leader's.
    ///
    /// # Errors
    /// [`Refused::Empty`], [`Error::BadRead`].
    pub fn read_all(&self) -> Result<Snapshot, Error> {
        self.snapshot(self.leader()?.id)
    }

    fn snapshot(&self, id: u64) -> Result<Snapshot, Error> {
        let values = self.values()?;
        let counts = self.events.iter().flatten().map(|event| {
            let count = values.of(event.id).unwrap_or(0);
            (event.id, event.spec, count.wrapping_sub(event.from))
        });
        Ok(Snapshot::new(
            id,
            counts,
            values.time_enabled.saturating_sub(self.from.enabled),
            values.time_running.saturating_sub(self.from.running),
        )?)
    }

    /// One read of the leader, which gives the whole group.
    fn values(&self) -> Result<Values, Error> {
        let leader = self.leader()?;
        let mut buffer = [0; MAX_BYTES];
        let len = self.system.read(&leader.event, &mut buffer);
        let len = len.map_err(|source| Error::System {
            what: "read a group",
            source,
        })?;
        let values = Values::parse(buffer.get(..len).unwrap_or_default());
        let values = values.ok_or(Error::BadRead {
            leader: leader.name.clone(),
        })?;
        let mut events = self.events.iter().flatten();
        match events.all(|event| values.of(event.id).is_some()) {
            true => Ok(values),
            false => Err(Error::BadRead {
                leader: leader.name.clone(),
            }),
        }
    }

    /// Ends an event. The others go on counting.
    ///
    /// # Errors
    /// [`Refused::Stale`], and [`Refused::HasMembers`] for a leader with members: only
    /// [`detach_all`](Group::detach_all) ends a whole group.
    pub fn detach(&mut self, handle: Handle) -> Result<(), Error> {
        self.event(handle)?;
        let members = self.events.iter().flatten().count() - 1;
        if handle.place == 0 && members > 0 {
            return Err(Refused::HasMembers(members).into());
        }
        let event = self.events.get_mut(handle.place).and_then(Option::take);
        self.is_counting &= handle.place > 0;
        match event {
            // Its program ends with the event, when it is closed.
            Some(event) => self.control(&event.event, Control::Disable, Scope::Event),
            None => Err(Refused::Stale.into()),
        }
    }

    /// Ends all events, the members first; returns the number of members.
    ///
    /// # Errors
    /// [`Refused::Empty`].
    pub fn detach_all(&mut self) -> Result<usize, Error> {
        self.stop()?;
        let (leader, members) = self.events.split_at_mut(1);
        let ended = members.iter_mut().filter_map(Option::take).count();
        leader.fill_with(|| None);
        Ok(ended)
    }

    /// The descriptor of an event, for what this crate does not do.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn descriptor(&self, handle: Handle) -> Result<BorrowedFd<'_>, Error>
    where
        S: System<Event = File>,
    {
        use std::os::fd::AsFd as _;
        Ok(self.event(handle)?.event.as_fd())
    }
}
