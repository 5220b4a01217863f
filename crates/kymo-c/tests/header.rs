//! `include/kymo.h`, `src/vocabulary.rs` and `src/fields.rs` are what the declarations say.
//! `KYMO_BLESS=1 cargo test -p kymo-c --test header` writes them anew. The header compiles alone
//! and in every language; wrong uses of it do not compile, or do not link.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod build;
mod generator;

use std::fs;
use std::path::Path;
use std::process::Command;

use build::{C, CPP, compiler, here, library, library_for_nmis, run, scratch};

fn is_made_from_the_declarations(file: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("KYMO_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "{file} is out of date: KYMO_BLESS=1 cargo test -p kymo-c --test header"
    );
}

#[test]
fn the_header_is_what_the_declarations_say() {
    is_made_from_the_declarations("include/kymo.h", &generator::header());
}

#[test]
fn the_librarys_table_is_what_the_declarations_say() {
    is_made_from_the_declarations("src/vocabulary.rs", &generator::table());
    is_made_from_the_declarations("src/fields.rs", &generator::fields());
}

/// The header's macro for the size of the memory is enough for all that it says.
#[test]
fn the_size_of_the_memory_counts_all_of_the_metadata() {
    assert!(generator::fixed_bytes() > generator::metadata().len());
}

/// The chapter on kernels in C has every error, in the order of the table.
#[test]
fn the_book_has_the_table_of_errors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/c.md");
    let book = fs::read_to_string(path).unwrap();
    assert!(
        book.contains(&generator::table_of_errors()),
        "docs/src/c.md has other errors"
    );
}

#[test]
fn the_header_compiles_alone() {
    /// Types as kernels define them, which are not those of the compiler's headers.
    const OWN_TYPES: &str = "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\n\
         typedef unsigned int uint32_t;\n__extension__ typedef unsigned long long uint64_t;\n\
         typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\n\
         __extension__ typedef long long int64_t;\ntypedef unsigned long uintptr_t;\n\
         typedef unsigned long size_t;\n#ifndef __cplusplus\ntypedef unsigned char bool;\n\
         #define true 1\n#define false 0\n#endif\n#define KYMO_NO_STD_HEADERS\n";
    const USES: &str = "\n#define DONE(FIELD) FIELD(u64, a) FIELD(i8, b) FIELD(flag, c) \
         FIELD(text, d)\n#define MINE(EVENT, BARE) EVENT(21, done, DONE) BARE(22, tick)\n\
         KYMO_EVENTS(MINE)\nKYMO_EVENT_TABLE(mine, MINE)\n\
         #define COUNTED(COUNTER, GAUGE, HISTOGRAM) COUNTER(a, things) HISTOGRAM(b, bytes) \
         GAUGE(c, things)\nKYMO_COUNTERS(COUNTED)\n\
         KYMO_COUNTER_TABLE(counted, COUNTED)\nKYMO_MEMORY_COUNTING(2, 1 << 20)\n\
         KYMO_SAMPLER(sampler, 2)\n\
         #ifdef KYMO_WITH_CONTEXTS\n\
         static void here(struct kymo_sample *sample) { sample->tid = 1; }\n\
         KYMO_SAMPLER_OF_EVENTS(other, 2, here)\n\
         static const struct kymo_sampler *const both[] = {&sampler, &other};\n\
         #else\nstatic const struct kymo_sampler *const both[] = {&sampler, &sampler};\n#endif\n\
         static const struct kymo_pmu pmu = {0, 0, 0, 0, 0, 0, 0};\n\
         KYMO_COUNTING(counting, 2, &pmu)\nint use(void);\nint use(void) {\n\
         struct kymo_config config;\nKYMO_OWN(config, mine);\nconfig.sampler = both[1];\n\
         config.counters = &counted;\ncount_a(1);\ncount_a_masked(1);\ncount_c(-1);\n\
         count_c_masked(-1);\nobserve_b(1);\nobserve_b_masked(1);\nkymo_tick();\n\
         config.counting = &counting;\nkymo_counting_tick();\n\
         kymo_happened(KYMO_SOFTWARE_PAGE_FAULTS, true);\n\
         trace_done(1, 2, true, \"x\", KYMO_TO_NUL);\nKYMO_TRACE(trace_tick());\n\
         return kymo_start(KYMO_TRACE, &config);\n}\n";
    let strict = ["-Wconversion", "-Wsign-conversion", "-Wno-long-long"];
    for language in [
        &C[..],
        &["cc", "-std=c99"],
        &["cc", "-std=c17"],
        &CPP,
        &["c++", "-x", "c++", "-std=c++17"],
    ] {
        for off in [
            &[][..],
            &["-DKYMO_OFF"],
            &["-DKYMO_WITH_CONTEXTS"],
            &["-DKYMO_OFF", "-DKYMO_WITH_CONTEXTS"],
            &["-DKYMO_NMI", "-DKYMO_WITH_CONTEXTS"],
        ] {
            for types in ["", OWN_TYPES] {
                let folder = scratch("alone");
                let file = folder.join("alone.c");
                fs::write(&file, format!("{types}#include \"kymo.h\"{USES}")).unwrap();
                let mut compile = compiler(language, off);
                run(compile.args(strict).arg("-fsyntax-only").arg(&file));
            }
        }
    }
}

/// Compiles and links a program; whether that went well, and what was said.
fn linked(compile: &mut Command, file: &Path, library: &Path) -> (bool, String) {
    compile.arg(file).args(["-x", "none"]).arg(library);
    compile.args(["-lpthread", "-ldl", "-lm", "-o"]);
    let output = compile.arg(file.with_extension("")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

/// Offsets and numbers of the one are in the other: where they could differ, nothing links.
#[test]
fn a_header_of_another_version_does_not_link() {
    let folder = scratch("version");
    let header = fs::read_to_string(here("include/kymo.h")).unwrap();
    let name = generator::start();
    let other = format!("{}z", &name[..name.len() - 1]);
    // A copy, because the program is written beside it.
    let small = folder.join("small.c");
    let shared = here("tests/c");
    fs::copy(shared.join("small.c"), &small).unwrap();
    let link = |text: &str| {
        fs::write(folder.join("kymo.h"), text).unwrap();
        let mut compile = Command::new("cc");
        compile.arg("-I").arg(&folder).arg("-I").arg(&shared);
        linked(&mut compile, &small, library())
    };
    assert_eq!(link(&header), (true, String::new()));
    let (is_linked, text) = link(&header.replace(&name, &other));
    assert!(!is_linked && text.contains(&other), "{text}");
    let nmi = format!("#define KYMO_NMI\n{header}");
    let (is_linked, text) = link(&nmi);
    assert!(!is_linked && text.contains("_nmi"), "{text}");
    // Files that only record: the library reads the clock for these, or does not.
    for (flags, library, is_right) in [
        (&[][..], library(), true),
        (&["-DKYMO_NMI"], library(), false),
        (&["-DKYMO_NMI"], library_for_nmis(), true),
        (&[], library_for_nmis(), false),
    ] {
        let file = folder.join("records.c");
        let source = "#include \"one_cpu.h\"\nKYMO_MEMORY(1, 65536)\n\
                      int main(void) { kymo_sched_enter_masked(); return 0; }\n";
        fs::write(&file, source).unwrap();
        let (is_linked, text) = linked(&mut compiler(&C, flags), &file, library);
        assert_eq!(is_linked, is_right, "{flags:?}: {text}");
        assert!(is_right || text.contains("kymo_record_0_masked"), "{text}");
    }
}

/// What counts by inlined code does not link where the memory has no words for it.
#[test]
fn counters_do_not_link_without_their_memory() {
    let folder = scratch("uncounted");
    let link = |memory: &str, count: &str| {
        let file = folder.join("uncounted.c");
        let source = format!(
            "#define KYMO_CPU() 0\n#include \"one_cpu.h\"\n\
             #define LIST(COUNTER, GAUGE, HISTOGRAM) COUNTER(one, things)\nKYMO_COUNTERS(LIST)\n\
             {memory}(1, 65536)\nint main(void) {{ {count}(1); return 0; }}\n"
        );
        fs::write(&file, source).unwrap();
        linked(&mut compiler(&C, &["-O2"]), &file, library())
    };
    assert_eq!(
        link("KYMO_MEMORY_COUNTING", "count_one_masked"),
        (true, String::new())
    );
    let (is_linked, text) = link("KYMO_MEMORY", "count_one_masked");
    assert!(!is_linked && text.contains("kymo_counted_memory"), "{text}");
}

/// There is no ready driver for this processor, and a kernel that asks for one finds that out when
/// it is linked.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_ready_driver_links_only_where_there_is_one() {
    let folder = scratch("ready");
    let file = folder.join("ready.c");
    let source = "#include \"one_cpu.h\"\nKYMO_MEMORY(1, 65536)\nKYMO_COUNTING_READY(ready, 1)\n\
                  int main(void) {\nstatic struct kymo_config config = {.counting = &ready};\n\
                  return kymo_start(KYMO_COUNT, &config); }\n";
    fs::write(&file, source).unwrap();
    let mut compile = compiler(&C, &["-Wno-missing-field-initializers"]);
    let (is_linked, text) = linked(&mut compile, &file, library());
    let is_named = text.contains("kymo_counting_ready_library");
    assert!(!is_linked && is_named, "{text}");
}

/// The names that an object refers to.
fn symbols(object: &Path) -> String {
    String::from_utf8(run(Command::new("nm").arg(object)).stdout).unwrap()
}

#[test]
fn nothing_is_left_and_nothing_is_evaluated_where_it_is_off() {
    for language in [&C[..], &CPP] {
        let folder = scratch("off");
        let object = folder.join("off.o");
        let compile = |off: &[&str]| {
            let more = [off, &["-Wno-missing-field-initializers", "-c"]].concat();
            run(compiler(language, &more)
                .arg(here("tests/c/off.c"))
                .arg("-o")
                .arg(&object));
            symbols(&object)
        };
        assert!(compile(&[]).contains("kymo_record_3"));
        let symbols = compile(&["-DKYMO_OFF"]);
        assert!(!symbols.contains("kymo"), "{symbols}");
        // What the function returns is how often something was evaluated.
        let main = folder.join("main.c");
        let head = "#ifdef __cplusplus\n#endif\nint side_effects(void);\n";
        fs::write(
            &main,
            format!("{head}int main(void) {{ return side_effects(); }}\n"),
        )
        .unwrap();
        let program = folder.join("off");
        let mut link = compiler(language, &[]);
        run(link
            .arg(&main)
            .args(["-x", "none"])
            .arg(&object)
            .arg("-o")
            .arg(&program));
        run(&mut Command::new(&program));
    }
}

/// What a wrong use is, and part of what the compiler says.
const MISTAKES: [(&str, &str); 10] = [
    ("kymo_thread_yield(\"one\")", "int"),
    ("kymo_thread_yield()", "few arguments"),
    ("kymo_thread_yield(1, 2)", "arguments"),
    ("kymo_thread_name(1, 2, 3)", "pointer"),
    ("kymo_lock_release(1, KYMO_THREAD_STATE_BLOCKED)", "enum"),
    ("trace_sensor(\"one\")", "int"),
    ("trace_sensor()", "few arguments"),
    ("KYMO_TRACE(trace_sensor(&config))", "int"),
    ("kymo_start(KYMO_TRACE, 1)", "pointer"),
    ("kymo_no_such_event(1)", "kymo_no_such_event"),
];

/// Lists that do not compile, and part of what the compiler says.
const LISTS: [(&str, &str); 4] = [
    ("EVENT(20, mine, SENSOR)", "21 to 29"),
    ("BARE(2048, mine)", "21 to 29"),
    ("EVENT(21, mine, SENSOR) BARE(21, other)", "duplicate case"),
    ("EVENT(21, two words, SENSOR)", "expected"),
];

#[test]
fn wrong_uses_do_not_compile() {
    let folder = scratch("mistakes");
    let file = folder.join("mistake.c");
    let compile = |source: String, off: &[&str]| {
        fs::write(&file, source).unwrap();
        let mut compile = compiler(&C, off);
        compile.arg("-fsyntax-only").arg(&file).output().unwrap()
    };
    let called = |call: &str| {
        let body = format!("struct kymo_config config = {{0}}; (void)config; {call};");
        format!("#include \"port.h\"\nvoid f(void);\nvoid f(void) {{ {body} }}\n")
    };
    for off in [&["-Wno-missing-field-initializers"][..], &["-DKYMO_OFF"]] {
        assert!(
            compile(called("kymo_thread_yield(1)"), off)
                .status
                .success()
        );
        for (call, why) in MISTAKES {
            let output = compile(called(call), off);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{call} compiles with {off:?}");
            assert!(said.contains(why), "{call}: {said}");
        }
        // 63 histograms take 4158 words.
        let many: String = (0..63).map(|at| format!("H(h{at}, x) ")).collect();
        for (list, why) in [
            (&*many, "4096 words"),
            ("C(same, x) G(same, x)", "same"),
            ("C(two words, x)", "expected"),
        ] {
            let list = format!("#define MINE(C, G, H) {list}\nKYMO_COUNTERS(MINE)\n");
            let output = compile(format!("#include \"port.h\"\n{list}"), off);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{list} compiles with {off:?}");
            assert!(said.contains(why), "{list}: {said}");
        }
        // Control blocks and counters of 64 CPUs take 49,152 bytes at least.
        let memory = "#define MINE(C, G, H) C(one, x)\nKYMO_COUNTERS(MINE)\n\
                      KYMO_MEMORY_COUNTING(64, 40000)\n";
        let output = compile(format!("#include \"port.h\"\n{memory}"), off);
        let said = String::from_utf8_lossy(&output.stderr);
        let is_off = off.contains(&"-DKYMO_OFF");
        assert_eq!(output.status.success(), is_off, "{said}");
        assert!(is_off || said.contains("too small for its CPUs"), "{said}");
        for (list, why) in LISTS {
            let list = format!("#define MINE(EVENT, BARE) {list}\nKYMO_EVENTS(MINE)\n");
            let output = compile(format!("#include \"port.h\"\n{list}"), off);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{list} compiles with {off:?}");
            assert!(said.contains(why), "{list}: {said}");
        }
    }
}
