//! The first process: a command line.

use core::sync::atomic::Ordering;

use crate::process;
use crate::programs;
use crate::trap::ticks;
use crate::{ONLINE, power_off, print, println};

const HELP: &str = "\
run NAME [COPIES] [&]  run copies of a program, and wait for them without &
ps                     the processes there are
kill PID               ask a process to end
wait                   wait for all that was run with &
up                     harts and ticks since the start
panic                  panic
off                    power off";

pub fn run(_: usize) -> i32 {
    let mut line = [0; 80];
    loop {
        while let Some((pid, status)) = process::try_wait() {
            println!("{pid} ended: {status}");
        }
        print!("$ ");
        let Ok(line) = core::str::from_utf8(crate::console::read_line(&mut line)) else {
            println!("this is not UTF-8");
            continue;
        };
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            None => {}
            Some("run") => start(words),
            Some("ps") => list(),
            Some("kill") => match words.next().and_then(|word| word.parse().ok()) {
                Some(1) => println!("the shell stays"),
                Some(pid) if process::kill(pid) => {}
                _ => println!("kill: no such process"),
            },
            Some("wait") => wait(),
            Some("up") => println!(
                "{} harts, {} ticks",
                ONLINE.load(Ordering::Relaxed),
                ticks()
            ),
            Some("panic") => panic!("as asked"),
            Some("off") => power_off(0),
            Some(_) => help(),
        }
    }
}

fn start<'a>(words: impl Iterator<Item = &'a str>) {
    let (mut program, mut copies, mut background) = (None, 1, false);
    for word in words {
        if word == "&" {
            background = true;
        } else if let Ok(number) = word.parse() {
            copies = number;
        } else {
            program = programs::ALL.iter().find(|program| program.name == word);
        }
    }
    let Some(program) = program else {
        return help();
    };
    for _ in 0..copies {
        if process::spawn(program.name, program.body, 0).is_none() {
            println!("run: the process table is full");
            break;
        }
    }
    if !background {
        wait();
    }
}

fn wait() {
    while let Some((pid, status)) = process::wait() {
        println!("{pid} ended: {status}");
    }
}

fn list() {
    process::list(|process| {
        println!("{:4} {:8} {:?}", process.pid, process.name, process.state);
    });
}

fn help() {
    println!("{HELP}");
    for program in &programs::ALL {
        println!("  {:6} {}", program.name, program.about);
    }
}
