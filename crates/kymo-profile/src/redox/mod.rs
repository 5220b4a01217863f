//! Profiles of the Redox kernel, in the text that its daemon `profiled` writes.
//!
//! A line is a sample: the thread's name, then in hexadecimal the CPU, the time stamp counter, the
//! instruction pointer and the return addresses. [`Importer`] finds the functions and chooses
//! samples and frames as `redox-kprofiling` does, and [`PerfScript`] writes what that tool prints.
//! Malformed lines are skipped and reported with their numbers.
//!
//! ```
//! use kymo_profile::redox::{Function, Functions, Importer, Options, Problems};
//!
//! let functions = Functions::new(vec![Function {
//!     address: 0xffff_ffff_8000_1000,
//!     size: 0x20,
//!     name: "kernel::main".to_owned(),
//! }]);
//! let mut importer = Importer::new(functions, Vec::new(), Options::default());
//! let text = b"[kmain] 0 1f4 ffffffff80001004\nnonsense\n";
//! importer.run(&text[..], |sample| {
//!     assert_eq!(sample.frames[0].name(), "kernel::main");
//!     Ok(())
//! })?;
//! assert_eq!(importer.outcome.samples, 1);
//! assert_eq!(importer.outcome.problems.count, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod build;
mod line;
mod perf_script;
mod symbols;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead};

pub use build::Builder;
pub use line::{LONGEST, Line, Malformed};
pub use perf_script::{Frequency, PerfScript};
pub use symbols::{Function, Functions};

use line::Lines;

/// The first address of the kernel's half.
const KERNEL: u64 = 1 << 63;
/// The thread that starts the kernel; it has no user part.
const KMAIN: &str = "[kmain]";

/// What to do with samples and frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Keep the user part of stacks and the samples taken in user mode, and name the thread of each
    /// sample; without it, all samples are of `kernel`. (`U`)
    pub user: bool,
    /// With `user`: keep samples taken in user mode by threads without symbols. (`u`)
    pub unknown_threads: bool,
    /// End a stack at the first address behind the end of its function. (`i`)
    pub inside_only: bool,
    /// How frames are shown. (`o`, `x`)
    pub frames: Frames,
}

/// How the frames of a stack are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// A frame is a function.
    #[default]
    Function,
    /// A frame is a place in the code: a function with an offset. (`o`)
    Offset,
    /// Both: under the function, the places in it. (`x`)
    Both,
}

/// A frame of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The address that is shown: the sampled one, or the function's for a frame of
    /// [`Frames::Both`] without an offset.
    pub address: u64,
    /// The function; `None` if the address lies before all of them.
    pub function: Option<&'a Function>,
    /// Whether the offset in the function is shown.
    pub shows_offset: bool,
    /// Whether the address is in the kernel's half.
    pub is_kernel: bool,
}

impl Frame<'_> {
    /// The function, with the offset if it is shown.
    pub fn name(&self) -> String {
        match self.function {
            None => "[unknown]".to_owned(),
            Some(function) if self.shows_offset => {
                format!("{}+{:#x}", function.name, self.address - function.address)
            }
            Some(function) => function.name.clone(),
        }
    }
}

/// A sample with its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The name of the thread, or `kernel`.
    pub name: &'a str,
    /// The name of the thread, whatever the options are.
    pub context: &'a str,
    /// The CPU.
    pub cpu: u32,
    /// The time stamp counter.
    pub ticks: u64,
    /// Whether the CPU was in the kernel.
    pub is_kernel: bool,
    /// The frames, the innermost first. Empty if the options leave none.
    pub frames: Vec<Frame<'a>>,
}

/// Lines that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first [`Problems::SHOWN`], with their line numbers.
    pub first: Vec<(u64, Malformed)>,
    /// The number of all of them.
    pub count: u64,
}

impl Problems {
    /// How many are kept; the others are only counted.
    pub const SHOWN: usize = 10;

    fn add(&mut self, line: u64, error: Malformed) {
        self.count += 1;
        if self.first.len() < Problems::SHOWN {
            self.first.push((line, error));
        }
    }
}

/// How many lines became samples, and why others did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Samples that were passed on.
    pub samples: u64,
    /// Of these, the ones without a frame: [`Options::inside_only`] left none.
    pub without_frames: u64,
    /// Samples of user mode, left out without [`Options::user`].
    pub in_user_mode: u64,
    /// Samples of user mode that were left out without [`Options::unknown_threads`], by thread.
    pub of_unknown_threads: BTreeMap<String, u64>,
    /// Lines that were skipped.
    pub problems: Problems,
}

/// Reads profiles.
#[derive(Debug)]
pub struct Importer {
    kernel: Functions,
    users: HashMap<String, Functions>,
    options: Options,
    /// What became of the lines so far.
    pub outcome: Outcome,
}

impl Importer {
    /// An importer with the functions of the kernel, and of programs by the names of their threads.
    pub fn new(
        kernel: Functions,
        users: impl IntoIterator<Item = (String, Functions)>,
        options: Options,
    ) -> Importer {
        Importer {
            kernel,
            users: users.into_iter().collect(),
            options,
            outcome: Outcome::default(),
        }
    }

    /// Reads the text and passes on its samples.
    ///
    /// # Errors
    /// If the text cannot be read, or the first error of `each`.
    pub fn run(
        &mut self,
        text: impl BufRead,
        mut each: impl FnMut(&Sample<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut lines = Lines::new(text);
        while let Some((number, line)) = lines.next_line()? {
            let line = match line.and_then(Line::parse) {
                Ok(None) => continue,
                Ok(Some(line)) => line,
                Err(error) => {
                    self.outcome.problems.add(number, error);
                    continue;
                }
            };
            if self.is_left_out(&line) {
                continue;
            }
            self.outcome.samples += 1;
            let frames = self.frames(&line);
            let is_empty = frames.is_empty();
            each(&Sample {
                name: if self.options.user {
                    &line.context
                } else {
                    "kernel"
                },
                context: &line.context,
                cpu: line.cpu,
                ticks: line.ticks,
                is_kernel: line.stack.first().is_some_and(|&address| address >= KERNEL),
                frames,
            })?;
            self.outcome.without_frames += u64::from(is_empty);
        }
        Ok(())
    }

    /// Whether the options leave the sample out; counts it then.
    fn is_left_out(&mut self, line: &Line<'_>) -> bool {
        let in_user_mode = line.stack.first().is_some_and(|&address| address < KERNEL);
        if !in_user_mode {
            return false;
        }
        if !self.options.user {
            self.outcome.in_user_mode += 1;
            return true;
        }
        let is_known = line.context == KMAIN || self.users.contains_key(&*line.context);
        if is_known || self.options.unknown_threads {
            return false;
        }
        let threads = &mut self.outcome.of_unknown_threads;
        match threads.get_mut(&*line.context) {
            Some(count) => *count += 1,
            None => drop(threads.insert(line.context.to_string(), 1)),
        }
        true
    }

    /// The frames of a stack, the innermost first.
    fn frames(&self, line: &Line<'_>) -> Vec<Frame<'_>> {
        let mut frames = Vec::with_capacity(line.stack.len());
        // The instruction pointer, and the user's one below the kernel, are exact. A return address
        // lies behind its call, which may be the last instruction of the function.
        let mut callee_is_kernel = None;
        for &address in &line.stack {
            let is_kernel = address >= KERNEL;
            if !is_kernel && !self.options.user {
                break;
            }
            let is_exact = callee_is_kernel != Some(is_kernel);
            callee_is_kernel = Some(is_kernel);
            let inside = if is_exact {
                address
            } else {
                address.saturating_sub(1)
            };
            let functions = match is_kernel {
                true => Some(&self.kernel),
                false => self.users.get(&*line.context),
            };
            let function = functions.and_then(|functions| functions.before(inside));
            let frame = |address, shows_offset| Frame {
                address,
                function,
                shows_offset,
                is_kernel,
            };
            let Some(Function {
                address: begin,
                size,
                ..
            }) = function
            else {
                frames.push(frame(address, false));
                continue;
            };
            if self.options.inside_only && inside - begin >= *size {
                break;
            }
            match self.options.frames {
                Frames::Function => frames.push(frame(address, false)),
                Frames::Offset => frames.push(frame(address, true)),
                Frames::Both if address == *begin => frames.push(frame(address, false)),
                Frames::Both => frames.extend([frame(address, true), frame(*begin, false)]),
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NM: &str = "ffffffff80001000 0000000000000020 T kernel::main
ffffffff80001020 0000000000000010 t kernel::work::<[u8; 4]>
ffffffff80001100 0000000000000008 T kernel::end";
    const USER: &str = "0000000000001000 0000000000000100 T dd::main";

    /// What `PerfScript` writes of the text, and the outcome.
    fn script(text: &[u8], options: Options) -> (String, Outcome) {
        let functions = |nm: &str| {
            let mut problems = Problems::default();
            let functions = Functions::from_nm(nm.as_bytes(), &mut problems).unwrap();
            assert_eq!(problems.count, 0);
            functions
        };
        let users = [("dd".to_owned(), functions(USER))];
        let mut importer = Importer::new(functions(NM), users, options);
        let mut out = Vec::new();
        let mut script = PerfScript::new(&mut out, "1".parse().ok());
        importer.run(text, |sample| script.add(sample)).unwrap();
        (String::from_utf8(out).unwrap(), importer.outcome)
    }

    const TEXT: &[u8] = b"dd 1 3b9aca05 ffffffff80001028 ffffffff80001020 1010 1100
[kmain] 0 3b9aca05 ffffffff80001100 ffffffff80001108 ffffffff80001200 ffffffff80001000
dd a 0 1000
other 0 0 2000
[kmain] 0 0 1000
dd 0 0 5
";

    #[test]
    fn without_options_the_kernel_part_of_kernel_samples_is_kept() {
        let (text, outcome) = script(TEXT, Options::default());
        // The second address of the first sample is behind the call that ends `main`, the third of
        // the second sample lies behind `end`.
        let wanted = "kernel 1 1.000000:
\tffffffff80001028 [kernel::work::<[u8; 4]>] ([kernel])
\tffffffff80001020 [kernel::main] ([kernel])

kernel 0 1.000000:
\tffffffff80001100 [kernel::end] ([kernel])
\tffffffff80001108 [kernel::end] ([kernel])
\tffffffff80001200 [kernel::end] ([kernel])
\tffffffff80001000 [unknown] ([kernel])

";
        assert_eq!(text, wanted);
        assert_eq!((outcome.samples, outcome.in_user_mode), (2, 4));
        assert_eq!(
            outcome,
            Outcome {
                samples: 2,
                in_user_mode: 4,
                ..Outcome::default()
            }
        );
    }

    #[test]
    fn the_user_part_is_kept_and_threads_named() {
        let options = Options {
            user: true,
            ..Options::default()
        };
        let (text, outcome) = script(TEXT, options);
        let first = text.split("\n\n").next().unwrap();
        let wanted = "dd 1 1.000000:
\tffffffff80001028 [kernel::work::<[u8; 4]>] ([kernel])
\tffffffff80001020 [kernel::main] ([kernel])
\t1010 [dd::main] (dd)
\t1100 [dd::main] (dd)";
        assert_eq!(first, wanted);
        assert!(text.contains("\n[kmain] 0 0.000000:\n\t1000 [unknown] ([kmain])\n\n"));
        assert!(text.ends_with("\ndd 0 0.000000:\n\t5 [unknown] (dd)\n\n"));
        assert_eq!((outcome.samples, outcome.in_user_mode), (5, 0));
        assert_eq!(
            outcome.of_unknown_threads,
            BTreeMap::from([("other".to_owned(), 1)])
        );
        let options = Options {
            unknown_threads: true,
            ..options
        };
        let (text, outcome) = script(TEXT, options);
        assert!(text.contains("\nother 0 0.000000:\n\t2000 [unknown] (other)\n\n"));
        assert_eq!((outcome.samples, outcome.of_unknown_threads.len()), (6, 0));
    }

    #[test]
    fn a_stack_ends_behind_a_function_with_inside_only() {
        let options = Options {
            inside_only: true,
            ..Options::default()
        };
        let text = b"a 0 0 ffffffff80001100 ffffffff80001108 ffffffff80001109 ffffffff80001000
a 0 0 ffffffff80001030 ffffffff80001000";
        let (text, outcome) = script(text, options);
        let wanted = "kernel 0 0.000000:
\tffffffff80001100 [kernel::end] ([kernel])
\tffffffff80001108 [kernel::end] ([kernel])

kernel 0 0.000000:

";
        assert_eq!(text, wanted);
        assert_eq!((outcome.samples, outcome.without_frames), (2, 1));
    }

    #[test]
    fn frames_show_offsets() {
        let text = b"a 0 0 ffffffff80001000 ffffffff80001010";
        let frames = |frames| {
            script(
                text,
                Options {
                    frames,
                    ..Options::default()
                },
            )
            .0
        };
        let wanted = "kernel 0 0.000000:
\tffffffff80001000 [kernel::main+0x0] ([kernel])
\tffffffff80001010 [kernel::main+0x10] ([kernel])

";
        assert_eq!(frames(Frames::Offset), wanted);
        let wanted = "kernel 0 0.000000:
\tffffffff80001000 [kernel::main] ([kernel])
\tffffffff80001010 [kernel::main+0x10] ([kernel])
\tffffffff80001000 [kernel::main] ([kernel])

";
        assert_eq!(frames(Frames::Both), wanted);
    }

    /// Malformed lines are skipped, with the first ones' numbers; the others are counted.
    #[test]
    fn malformed_lines_are_reported_and_skipped() {
        let mut text = b"kernel 0 0 ffffffff80001000\n".repeat(3);
        text.splice(0..0, *b"x\n\n");
        text.extend_from_slice(&b"a 0 0 nonsense ffffffff80001000\n".repeat(30));
        let (script, outcome) = script(&text, Options::default());
        assert_eq!(script.matches("kernel 0 0.000000:").count(), 3);
        assert_eq!(outcome.problems.count, 31);
        let lines: Vec<u64> = outcome
            .problems
            .first
            .iter()
            .map(|(line, _)| *line)
            .collect();
        assert_eq!(lines, [1, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    }

    /// The profile of these samples, with times in nanoseconds if a frequency is given.
    fn profile(text: &[u8], options: Options, frequency: Option<Frequency>) -> crate::Profile {
        let mut problems = Problems::default();
        let functions = Functions::from_nm(NM.as_bytes(), &mut problems).unwrap();
        let mut importer = Importer::new(functions, Vec::new(), options);
        let mut builder = Builder::new(frequency);
        let add = |sample: &Sample<'_>| {
            builder.add(sample);
            Ok(())
        };
        importer.run(text, add).unwrap();
        builder.finish()
    }

    #[test]
    fn a_profile_has_the_samples_in_time_order() {
        let text = b"dd 1 9 ffffffff80001028 ffffffff80001020
[kmain] 0 5 ffffffff80001100 ffffffff80001010
dd 1 7 ffffffff80001028 ffffffff80001020
dd 1 8 1000 1010";
        let built = profile(text, Options::default(), "0.5".parse().ok());
        let wanted = "kernel;kernel::main;kernel::end 1
kernel;kernel::main;kernel::work::<[u8: 4]> 2
";
        assert_eq!(built.folded(crate::By::Thread), wanted);
        let times: Vec<i64> = built.samples.iter().map(|sample| sample.time_ns).collect();
        assert_eq!((times, built.span_ns), (vec![10, 14, 18], Some((10, 18))));
        assert_eq!(
            built.clock.as_ref().map(|clock| clock.frequency),
            Some(500_000_000)
        );
        let options = Options {
            user: true,
            unknown_threads: true,
            ..Options::default()
        };
        let built = profile(text, options, None);
        let wanted = "[kmain];kernel::main;kernel::end 1
dd;[unknown];[unknown] 1
dd;kernel::main;kernel::work::<[u8: 4]> 2
";
        assert_eq!(built.folded(crate::By::Thread), wanted);
        let times: Vec<i64> = built.samples.iter().map(|sample| sample.time_ns).collect();
        assert_eq!((times, built.clock.is_none()), (vec![5, 7, 8, 9], true));
        let modes: Vec<crate::Mode> = built.rows.iter().map(|row| row.mode).collect();
        use crate::Mode::{Kernel, User};
        assert_eq!(modes, [Kernel, Kernel, User]);
    }

    /// No text makes it fail, and every line that is not blank is accounted for.
    #[test]
    fn random_text_is_accounted_for() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        let pieces: [&[u8]; 14] = [
            b"dd",
            b"[kmain]",
            b"0",
            b"ffffffffffffffff",
            b"10000000000000000",
            b"ffffffff80001024",
            b"1010",
            b" ",
            b"  ",
            b"\t",
            b"\n",
            b"\r\n",
            b"\xff\xfe",
            b"\0",
        ];
        for _ in 0..3000 {
            let mut text = Vec::new();
            for _ in 0..random(60) {
                text.extend_from_slice(pieces[random(pieces.len())]);
                if random(3) > 0 {
                    text.push(b' ');
                }
            }
            let options = Options {
                user: random(2) == 0,
                unknown_threads: random(2) == 0,
                inside_only: random(2) == 0,
                frames: [Frames::Function, Frames::Offset, Frames::Both][random(3)],
            };
            let (_, outcome) = script(&text, options);
            let lines = text.split(|&byte| byte == b'\n');
            let filled = lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64;
            let accounted = outcome.samples
                + outcome.in_user_mode
                + outcome.of_unknown_threads.values().sum::<u64>()
                + outcome.problems.count;
            assert_eq!(accounted, filled, "{}", String::from_utf8_lossy(&text));
        }
    }
}
