//! From chains of addresses to stacks of functions.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use kymo_ctf::ClockClass;
use kymo_machine::{AddressSpace, Mapping};
use kymo_symbols::{CodeFrame, Loaded, Located};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::chains::{ChainTable, Part};
use crate::counts::Space;
use crate::profile::{
    Coverage, Frame, FrameId, FunctionId, ImageId, PeriodUnit, Profile, ProfileFunction,
    ProfileImage, Row, Sample, Stack, StackId, Thread, Totals, Unit,
};
use crate::tally::Key;

/// The code for which [`Chains::symbolize`] asks for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The kernel.
    Kernel,
    /// The program of this path.
    Program(&'a str),
    /// A program of which the trace has no path.
    Process {
        /// Name of its process.
        name: &'a str,
        /// The process and its memory, if the trace says.
        space: Option<AddressSpace>,
    },
}

/// A file of the kernel's or a program's, and where it was loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadedFile<'i, 'd> {
    /// The file.
    pub loaded: Loaded<'i, 'd>,
    /// Path of a shared library; `None` for the kernel or the program itself.
    pub library: Option<&'i str>,
}

impl LoadedFile<'_, '_> {
    /// Whether an address is one of the file as it was loaded.
    fn holds(&self, address: u64) -> bool {
        let Loaded { image, bias } = self.loaded;
        image.holds(address.wrapping_sub(bias))
    }
}

/// Distinct call chains and their counts, before symbols are looked up.
#[derive(Debug)]
pub struct Chains {
    pub(crate) chains: ChainTable,
    pub(crate) rows: Vec<(Key, Row)>,
    /// Names that stand before chains, the outermost first.
    pub(crate) prefixes: Vec<Vec<Arc<str>>>,
    pub(crate) spaces: Vec<Space>,
    pub(crate) space_names: Vec<Arc<str>>,
    /// Where processes have loaded their files.
    pub(crate) mappings: Vec<(AddressSpace, Vec<Mapping>)>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) totals: Totals,
    pub(crate) unit: Unit,
    pub(crate) span_ns: Option<(i64, i64)>,
    pub(crate) clock: Option<Arc<ClockClass>>,
    pub(crate) period: Option<u64>,
    pub(crate) period_unit: PeriodUnit,
}

impl Chains {
    /// What was counted, and what was not.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Number of distinct chains.
    pub fn distinct(&self) -> usize {
        self.chains.len()
    }

    /// Where the processes with samples had loaded their files, by another tracer's events: the
    /// process's memory, and its program first.
    pub fn mappings(&self) -> &[(AddressSpace, Vec<Mapping>)] {
        &self.mappings
    }

    /// The images for which [`symbolize`](Self::symbolize) may ask.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted<'_>> {
        let programs = (0..self.spaces.len()).map(|place| self.wanted_of(Some(place)));
        [Wanted::Kernel].into_iter().chain(programs)
    }

    fn wanted_of(&self, space: Option<usize>) -> Wanted<'_> {
        let name = space.and_then(|space| self.space_names.get(space));
        match space.map(|space| self.spaces.get(space)) {
            None => Wanted::Kernel,
            Some(Some(Space::Program(path))) => Wanted::Program(path),
            Some(space) => Wanted::Process {
                name: name.map_or("", |name| name),
                space: match space {
                    Some(Space::Process(own)) => Some(*own),
                    _ => None,
                },
            },
        }
    }

    /// Looks up each distinct address once. `find` is called once for the kernel and for each
    /// program with addresses, and returns the files that were loaded: a program's own file first,
    /// then its libraries. Where no file holds the address, or its file knows no function, frames
    /// are named by their address.
    pub fn symbolize<'i, 'd: 'i, L>(self, mut find: impl FnMut(Wanted<'_>) -> L) -> Profile
    where
        L: IntoIterator<Item = LoadedFile<'i, 'd>>,
    {
        let mut places = Places::default();
        let chains: Vec<Range<usize>> = (0..self.chains.len() as u32)
            .map(|chain| places.chain(&self.chains, chain))
            .collect();
        let mut profile = Profile::default();
        let mut frames_of = Vec::with_capacity(places.images.len());
        for (space, addresses) in &places.images {
            let place = space.map(|space| space as usize);
            let name = place.and_then(|place| self.space_names.get(place));
            let wanted = self.wanted_of(place);
            let name = name.map_or("kernel", |name| name);
            let files: Vec<_> = find(wanted).into_iter().collect();
            frames_of.push(profile.add_images(name, wanted, &files, addresses));
        }
        let mut names: FxHashMap<Arc<str>, FrameId> = FxHashMap::default();
        let mut frame = |name: &Arc<str>| match names.get(name) {
            Some(frame) => *frame,
            None => {
                let frame = profile.add_name(name);
                names.insert(Arc::clone(name), frame);
                frame
            }
        };
        let prefixes = self.prefixes.iter();
        let prefixes: Vec<Vec<FrameId>> = prefixes
            .map(|names| names.iter().map(&mut frame).collect())
            .collect();
        let places = ChainFrames {
            places: &places,
            frames_of: &frames_of,
            chains: &chains,
            prefixes: &prefixes,
        };
        let found = places.tree(self.rows.iter().map(|(key, _)| key), &mut profile.stacks);
        let rows = self.rows.iter().map(|(key, row)| Row {
            stack: found.get(&of(key)).copied(),
            ..*row
        });
        profile.rows = rows.collect();
        Profile {
            threads: self.threads,
            samples: self.samples,
            totals: self.totals,
            unit: self.unit,
            clock: self.clock,
            span_ns: self.span_ns,
            period: self.period,
            period_unit: self.period_unit,
            ..profile
        }
    }
}

/// An address of a chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChainPlace {
    image: u32,
    /// Index in the image's addresses.
    place: u32,
    /// Whether the chain begins here with a tracepoint.
    is_tracepoint: bool,
}

/// The frames of an address, the outermost first.
#[derive(Clone, Default)]
struct Frames {
    all: Range<u32>,
    /// Where the tracepoint's own frames begin.
    end_of_code: u32,
}

impl Frames {
    fn of(&self, is_tracepoint: bool) -> Range<u32> {
        match is_tracepoint {
            true => self.all.start..self.end_of_code,
            false => self.all.clone(),
        }
    }
}

/// Whether a function is the part of a tracepoint that asks for its context,
/// `kymo::Tracer::context_of`, which is inlined into the function with the tracepoint.
fn is_context_of(name: &str) -> bool {
    // Few names get further than this.
    name.contains("context_of")
        && kymo_symbols::path(name)
            .last()
            .is_some_and(|last| last.split('<').next() == Some("context_of"))
}

/// The distinct addresses of all chains, by image.
#[derive(Default)]
struct Places {
    /// The space, or `None` for the kernel, and the addresses to look up.
    images: Vec<(Option<u32>, Vec<u64>)>,
    image_of: FxHashMap<Option<u32>, u32>,
    known: FxHashMap<(u32, u64), u32>,
    /// The addresses of all chains, the outermost first.
    all: Vec<ChainPlace>,
}

impl Places {
    /// Adds a chain's addresses, and gives their part of `all`.
    fn chain(&mut self, chains: &ChainTable, chain: u32) -> Range<usize> {
        let begin = self.all.len();
        if let Some((header, addresses)) = chains.get(chain) {
            let kernel = header.kernel();
            let (of_kernel, of_user) = addresses.split_at(kernel.len.min(addresses.len()));
            let is_inner = of_kernel.is_empty();
            self.part(Some(header.space()), of_user, header.user(), is_inner);
            self.part(None, of_kernel, kernel, true);
        }
        begin..self.all.len()
    }

    /// Adds a part of a chain, which may be its inner end.
    fn part(&mut self, space: Option<u32>, addresses: &[u64], part: Part, is_inner: bool) {
        if addresses.is_empty() {
            return;
        }
        let next = self.images.len() as u32;
        let image = *self.image_of.entry(space).or_insert(next);
        if image == next {
            self.images.push((space, Vec::new()));
        }
        let Some((_, wanted)) = self.images.get_mut(image as usize) else {
            return;
        };
        for (index, &address) in addresses.iter().enumerate().rev() {
            // A return address may already belong to the next line, or to another function.
            let exact = index == 0 && part.first_is_exact;
            let address = address.wrapping_sub(u64::from(!exact));
            let place = *self.known.entry((image, address)).or_insert_with(|| {
                wanted.push(address);
                wanted.len() as u32 - 1
            });
            self.all.push(ChainPlace {
                image,
                place,
                // A sample begins where the CPU was, an event's chain behind a call.
                is_tracepoint: is_inner && index == 0 && !exact,
            });
        }
    }
}

impl Profile {
    /// Adds a frame that stands for no code.
    fn add_name(&mut self, name: &Arc<str>) -> FrameId {
        let id = FrameId::next(self.frames.len());
        let function = FunctionId::next(self.functions.len());
        self.functions.push(ProfileFunction {
            name: Arc::clone(name),
            linkage_name: Arc::from(""),
            image: None,
            begin: None,
        });
        self.frames.push(Frame {
            function,
            file: None,
            line: None,
            address: 0,
            is_inlined: false,
            is_kernel: false,
        });
        id
    }

    /// Adds the kernel, or a program and those of its libraries that hold an address. Gives the
    /// frames of each address.
    fn add_images(
        &mut self,
        name: &str,
        wanted: Wanted<'_>,
        files: &[LoadedFile<'_, '_>],
        addresses: &[u64],
    ) -> Vec<Frames> {
        if files.len() <= 1 {
            let loaded = files.first().map(|file| file.loaded);
            return self.add_image(name, wanted, loaded, addresses);
        }
        // By file, the indices of its addresses; those of no file stay with the program.
        let mut indices = vec![Vec::new(); files.len()];
        for (index, address) in addresses.iter().enumerate() {
            let file = files.iter().position(|file| file.holds(*address));
            if let Some(of_file) = indices.get_mut(file.unwrap_or(0)) {
                of_file.push(index);
            }
        }
        let mut ranges = vec![Frames::default(); addresses.len()];
        for (file, indices) in files.iter().zip(indices) {
            if indices.is_empty() {
                continue;
            }
            let of_file = indices.iter().filter_map(|index| addresses.get(*index));
            let of_file: Vec<u64> = of_file.copied().collect();
            let name = file.library.unwrap_or(name);
            let found = self.add_image(name, wanted, Some(file.loaded), &of_file);
            for (index, range) in indices.into_iter().zip(found) {
                if let Some(place) = ranges.get_mut(index) {
                    *place = range;
                }
            }
        }
        ranges
    }

    /// Adds an image, and gives the frames of each address.
    fn add_image(
        &mut self,
        name: &str,
        wanted: Wanted<'_>,
        loaded: Option<Loaded<'_, '_>>,
        addresses: &[u64],
    ) -> Vec<Frames> {
        let id = ImageId::next(self.images.len());
        let bias = loaded.map_or(0, |loaded| loaded.bias);
        let linked: Vec<u64> = addresses
            .iter()
            .map(|address| address.wrapping_sub(bias))
            .collect();
        let located = match loaded {
            Some(loaded) => loaded.image.locate(&linked),
            None => Located::default(),
        };
        let build_id = loaded.and_then(|loaded| loaded.image.build_id());
        let is_kernel = wanted == Wanted::Kernel;
        self.images.push(ProfileImage {
            name: Arc::from(name),
            is_kernel,
            build_id: build_id.map(hex).unwrap_or_default(),
            has_file: loaded.is_some(),
            damage: located.damage.clone(),
            bias,
            coverage: Coverage::of(loaded, &linked, &located),
        });
        let functions = self.functions.len();
        self.functions
            .extend(located.functions.iter().map(|function| ProfileFunction {
                name: Arc::from(&*function.name),
                linkage_name: Arc::from(&*function.linkage_name),
                image: Some(id),
                begin: function.begin,
            }));
        let files: Vec<Arc<str>> = located
            .files
            .iter()
            .map(|file| Arc::from(&**file))
            .collect();
        let mut ranges = Vec::with_capacity(addresses.len());
        for (index, (&address, &linked)) in addresses.iter().zip(&linked).enumerate() {
            let begin = self.frames.len() as u32;
            let known = located.places.get(index).cloned().unwrap_or(0..0);
            let known = located.frames.get(known).unwrap_or(&[]);
            let is_of_tracepoint = |frame: &&CodeFrame| {
                let function = located.functions.get(frame.function);
                frame.is_inlined && function.is_some_and(|function| is_context_of(&function.name))
            };
            let of_tracepoint = known.iter().take_while(is_of_tracepoint).count() as u32;
            for frame in known.iter().rev() {
                self.frames.push(Frame {
                    function: FunctionId::next(functions + frame.function),
                    file: frame.file.and_then(|file| files.get(file).cloned()),
                    line: frame.line,
                    address,
                    is_inlined: frame.is_inlined,
                    is_kernel,
                });
            }
            if self.frames.len() as u32 == begin {
                let function = FunctionId::next(self.functions.len());
                self.functions
                    .push(unnamed(name, loaded, linked, address, id));
                self.frames.push(Frame {
                    function,
                    file: None,
                    line: None,
                    address,
                    is_inlined: false,
                    is_kernel,
                });
            }
            let all = begin..self.frames.len() as u32;
            let end_of_code = all.end - of_tracepoint;
            ranges.push(Frames { all, end_of_code });
        }
        ranges
    }
}

impl Coverage {
    fn of(loaded: Option<Loaded<'_, '_>>, linked: &[u64], located: &Located) -> Coverage {
        let Some(Loaded { image, .. }) = loaded else {
            return Coverage::default();
        };
        let places = located.places.iter();
        Coverage {
            addresses: linked.len() as u64,
            unnamed: places.filter(|place| place.is_empty()).count() as u64,
            outside: linked.iter().filter(|at| !image.holds(**at)).count() as u64,
            has_names: image.has_names(),
        }
    }
}

/// The name of an address without a function: its offset in the file that it is from, or the
/// address.
fn unnamed(
    name: &str,
    loaded: Option<Loaded<'_, '_>>,
    linked: u64,
    address: u64,
    image: ImageId,
) -> ProfileFunction {
    let file = name.rsplit('/').next().unwrap_or(name);
    let text = match loaded.filter(|loaded| loaded.image.holds(linked)) {
        Some(loaded) => format!("{file}+{:#x}", linked.wrapping_sub(loaded.image.base())),
        None => format!("{address:#x}"),
    };
    ProfileFunction {
        name: Arc::from(text),
        linkage_name: Arc::from(""),
        image: Some(image),
        begin: None,
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A stack by the numbers of its prefix and its chain.
type StackOf = (u32, u32);

fn of(key: &Key) -> StackOf {
    (key.prefix, key.chain)
}

/// The frames of all prefixes and chains.
struct ChainFrames<'a> {
    places: &'a Places,
    frames_of: &'a [Vec<Frames>],
    chains: &'a [Range<usize>],
    prefixes: &'a [Vec<FrameId>],
}

impl ChainFrames<'_> {
    /// The frames of a prefix, and the places of a chain, the outermost first.
    fn parts(&self, (prefix, chain): StackOf) -> (&[FrameId], &[ChainPlace]) {
        let prefix = self.prefixes.get(prefix as usize);
        let chain = self.chains.get(chain as usize).cloned().unwrap_or(0..0);
        let places = self.places.all.get(chain);
        (prefix.map_or(&[], |prefix| prefix), places.unwrap_or(&[]))
    }

    /// Makes the tree of the stacks of all rows, each with its callers before it.
    ///
    /// In sorted order a stack shares with the one before it whatever it shares with any of those.
    fn tree<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key>,
        tree: &mut Vec<Stack>,
    ) -> FxHashMap<StackOf, StackId> {
        let distinct: FxHashSet<StackOf> = keys.map(of).collect();
        let mut sorted: Vec<StackOf> = distinct.into_iter().collect();
        sorted.sort_unstable_by(|one, other| {
            let places = self.parts(*one).cmp(&self.parts(*other));
            places.then_with(|| one.cmp(other))
        });
        let mut found = FxHashMap::default();
        found.reserve(sorted.len());
        let mut path: Vec<(FrameId, StackId)> = Vec::new();
        for stack in sorted {
            let (prefix, chain) = self.parts(stack);
            let of_chain = chain.iter().flat_map(|at| {
                let image = self.frames_of.get(at.image as usize);
                let frames = image.and_then(|image| image.get(at.place as usize));
                frames.map_or(0..0, |frames| frames.of(at.is_tracepoint))
            });
            let frames = prefix.iter().copied().chain(of_chain.map(FrameId));
            let mut depth = 0;
            for frame in frames {
                if path.get(depth).is_none_or(|(known, _)| *known != frame) {
                    path.truncate(depth);
                    let parent = path.last().map(|(_, stack)| *stack);
                    tree.push(Stack { parent, frame });
                    path.push((frame, StackId::next(tree.len() - 1)));
                }
                depth += 1;
            }
            path.truncate(depth);
            if let Some((_, innermost)) = path.last() {
                found.insert(stack, *innermost);
            }
        }
        found
    }
}
