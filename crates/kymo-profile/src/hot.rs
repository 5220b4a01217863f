//! Shares of functions and lines.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::{Frame, ImageId, Profile, StackId};

/// The unit of which [`Profile::hot`] gives shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Functions.
    #[default]
    Function,
    /// Lines of source files.
    Line,
}

/// A share of the profile's weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The weight.
    pub weight: u64,
    /// The share, from 0 to 1.
    pub share: f64,
    /// Wilson's interval: with a probability of 95 %, the share of the machine's time lies in it,
    /// if the samples are independent of each other.
    pub interval: (f64, f64),
}

/// A function or a line, and what of the profile is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// The function's name.
    pub function: Arc<str>,
    /// Where its code is.
    pub image: Option<ImageId>,
    /// The source file, for lines where it is known.
    pub file: Option<Arc<str>>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// Samples in it, and not in what it calls.
    pub own: Share,
    /// Samples in it or in what it calls; several times on a stack counts once.
    pub total: Share,
}

type Key<'a> = (&'a str, Option<ImageId>, Option<&'a str>, Option<u32>);

impl Profile {
    /// Functions or lines, those with the most samples of their own first.
    pub fn hot(&self, place: Place) -> Vec<Hot> {
        let files = self.files();
        let mut numbers: FxHashMap<Key<'_>, usize> = FxHashMap::default();
        let mut places: Vec<(&Frame, u64, u64)> = Vec::new();
        let mut of_frame: Vec<usize> = Vec::with_capacity(self.frames.len());
        for frame in &self.frames {
            let number = *numbers
                .entry(self.key(frame, place, &files))
                .or_insert_with(|| {
                    places.push((frame, 0, 0));
                    places.len() - 1
                });
            of_frame.push(number);
        }
        let mut weights: FxHashMap<StackId, u64> = FxHashMap::default();
        for row in &self.rows {
            if let Some(stack) = row.stack {
                let weight = weights.entry(stack).or_default();
                *weight = weight.saturating_add(row.weight);
            }
        }
        // The last stack that was counted for each place, so that recursion counts once.
        let mut counted = vec![None; places.len()];
        for (stack, weight) in weights {
            let mut next = Some(stack);
            while let Some(node) = next.and_then(|id| self.stacks.get(id.index())) {
                let number = of_frame.get(node.frame.index()).copied();
                let number = number.unwrap_or(usize::MAX);
                if let (Some((_, own, total)), Some(counted)) =
                    (places.get_mut(number), counted.get_mut(number))
                {
                    if next == Some(stack) {
                        *own = own.saturating_add(weight);
                    }
                    if *counted != Some(stack) {
                        *counted = Some(stack);
                        *total = total.saturating_add(weight);
                    }
                }
                next = node.parent;
            }
        }
        let all = self.weight();
        let mut hot: Vec<Hot> = places
            .into_iter()
            .filter(|(_, _, total)| *total > 0)
            .map(|(frame, own, total)| {
                let (function, image, file, line) = self.key(frame, place, &files);
                Hot {
                    function: Arc::from(function),
                    image,
                    file: file.map(Arc::from),
                    line,
                    own: Share::of(own, all),
                    total: Share::of(total, all),
                }
            })
            .collect();
        let order = |hot: &Hot| {
            let weights = (hot.own.weight, hot.total.weight);
            let place = (hot.function.clone(), hot.file.clone(), hot.line, hot.image);
            (std::cmp::Reverse(weights), place)
        };
        hot.sort_by_cached_key(order);
        hot
    }

    /// By image, the first image of the same file: processes that execute one program have one
    /// each.
    fn files(&self) -> Vec<ImageId> {
        let mut files: Vec<usize> = Vec::new();
        let images = self.images.iter().enumerate();
        let first = images.map(|(index, image)| {
            let known = files.iter().find(|at| {
                let file = self.images.get(**at);
                file.is_some_and(|file| file.is_file_of(image))
            });
            let first = known.copied().unwrap_or(index);
            if first == index {
                files.push(index);
            }
            ImageId::next(first)
        });
        first.collect()
    }

    fn key<'a>(&'a self, frame: &'a Frame, place: Place, files: &[ImageId]) -> Key<'a> {
        let image = self.function(frame).and_then(|function| function.image);
        let image = image.and_then(|image| files.get(image.index()).copied());
        let (file, line) = match place {
            Place::Function => (None, None),
            Place::Line => (frame.file.as_deref(), frame.line),
        };
        (self.name(frame), image, file, line)
    }
}

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

impl Share {
    /// `part` of `all`.
    pub fn of(part: u64, all: u64) -> Share {
        if all == 0 {
            return Share {
                weight: part,
                share: 0.0,
                interval: (0.0, 1.0),
            };
        }
        // E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
        // 1927: unlike the normal interval, it is right for small shares too.
        let (count, share) = (all as f64, part as f64 / all as f64);
        let scale = 1.0 + Z * Z / count;
        let centre = (share + Z * Z / (2.0 * count)) / scale;
        let variance = share * (1.0 - share) / count + Z * Z / (4.0 * count * count);
        let half = Z * variance.sqrt() / scale;
        Share {
            weight: part,
            share,
            interval: ((centre - half).max(0.0), (centre + half).min(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the formula, computed apart.
    #[test]
    fn the_interval_is_wilsons() {
        for (part, all, low, high) in [
            (0, 10, 0.0, 0.277_532_8),
            (5, 10, 0.236_593_1, 0.763_406_9),
            (10, 10, 0.722_467_2, 1.0),
            (50, 1000, 0.038_130_3, 0.065_313_8),
        ] {
            let (from, to) = Share::of(part, all).interval;
            assert!((from - low).abs() < 1e-5, "{part} of {all}: {from}");
            assert!((to - high).abs() < 1e-5, "{part} of {all}: {to}");
        }
        assert_eq!(Share::of(0, 0).interval, (0.0, 1.0));
    }
}
