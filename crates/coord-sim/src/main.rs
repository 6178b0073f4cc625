fn main() {
    let from: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    let n: u64 = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1);
    let log = std::env::args().nth(3).is_some();
    let mut bad = 0;
    let mut total = coord_sim::Meter::default();
    for seed in from..from + n {
        let (outcome, lines) = coord_sim::Simulation::new(seed, log).run();
        total += &outcome.meter;
        if let Some(v) = outcome.violation {
            bad += 1;
            let t: String = format!("{v}").chars().take(1500).collect();
            println!("seed {seed} at {} s: {t}", outcome.meter.time / 1_000_000_000);
        }
        for l in lines { eprintln!("{l}"); }
    }
    println!("{bad} of {n}; {total:#?}");
}
