//! What a request costs: tower-throttle and its peers, on the same requests, in one process, in turns.
//!
//! ```text
//! cargo run --release -p bench              # everything, about ten minutes; writes bench/RESULTS.md and bench/speed.svg
//! cargo run --release -p bench -- speed     # one part of it, printed: speed, shapes, algorithms,
//!                                           # footprint, flood, redis, instructions
//! cargo run --release -p bench -- quick     # a few seconds, to see whether a change is worth more
//! ```
//!
//! Times are nanoseconds per request over a service that does nothing, the least of all rounds; ratios are of these.
//! The Redis part starts a `redis-server` of its own, the instructions are counted by `valgrind`; both must be installed.

mod algorithms;
mod chart;
mod fleet;
mod flood;
mod floors;
mod footprint;
mod instructions;
mod load;
mod peers;
mod report;
mod rounds;
mod shapes;
mod speed;

use std::env;

use footprint::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let args: Vec<_> = env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => report::everything(),
        ["quick"] => print!("{}", speed::quick()),
        ["speed"] => print!("{}", speed::tables().text),
        ["shapes"] => print!("{}", shapes::table()),
        ["algorithms"] => print!("{}", algorithms::table()),
        ["footprint"] => print!("{}", footprint::tables()),
        ["flood"] => print!("{}", flood::report()),
        ["redis"] => print!("{}", fleet::table()),
        ["instructions"] => print!("{}", instructions::table()),
        // For those who count instructions, or profile.
        ["serve", name, requests] => instructions::serve(name, requests.parse().expect("a number of requests")),
        _ => eprintln!("see the head of bench/src/main.rs for what may be asked"),
    }
}
