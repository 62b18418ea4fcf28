//! Tests of the configuration file: defaults, each kind of value, and errors.

use super::*;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(text).map(|(settings, _)| settings)
}

#[test]
fn the_table_of_run_times_is_a_file_of_its_own() {
    let folder = std::env::temp_dir().join(format!("flowcon-run-times-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (config, table) = (folder.join("flowcoord.toml"), folder.join("run-times.toml"));
    fs::write(&config, format!("[cluster]\nrun-times = \"{}\"\n", table.display())).unwrap();
    let load = || Settings::load(&config, true).map_err(|error| error.to_string());
    assert!(load().unwrap_err().contains("run-times.toml: cannot read"));
    fs::write(&table, "[bert]\n\"gpus=1\" = \"soon\"\n").unwrap();
    assert!(load().unwrap_err().contains("run-times.toml: [bert]: \"gpus=1\" = \"soon\": expected a duration"));
    fs::write(&table, "[bert]\n\"gpus=1\" = \"2h\"\n").unwrap();
    assert_ne!(load().unwrap().machine.run_times, RunTimes::default());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(parse("").unwrap(), Settings::default());
}

#[test]
fn values_of_the_file_override_the_defaults() {
    let text = "socket = \"/tmp/c.sock\"\n[cluster]\nmoves = \"specon\"\nmoves-at-once = 3\n[times]\nlease = \"2m\"\n[agent]\nport = 8000\nvolume-most = \"2GiB\"\n";
    let settings = parse(text).unwrap();
    assert_eq!(settings.machine.cluster.moves, MoveRule::SpeCon);
    assert_eq!((settings.machine.cluster.moves_at_once, settings.machine.lease), (3, Millis::from_secs(120)));
    assert_eq!((settings.agent.port, settings.agent.volume_most), (8000, Bytes(2 << 30)));
}

#[test]
fn the_constants_of_the_published_policies_can_be_set() {
    let published = Settings::default().machine.cluster;
    assert_eq!((published.specon_threshold, published.specon_interval), (0.01, Millis::from_secs(30)));
    assert_eq!((published.dragon_waits, published.dragon_idles), (Millis::from_secs(30), Millis::from_secs(60)));
    let text = "[cluster]\nspecon-threshold = 0.05\nspecon-interval = \"20s\"\nprocon-limit = 0.8\ndragon-waits = \"5s\"\ndragon-idles = \"10s\"\n";
    let expected = ClusterSettings {
        specon_threshold: 0.05,
        specon_interval: Millis::from_secs(20),
        procon_limit: 0.8,
        dragon_waits: Millis::from_secs(5),
        dragon_idles: Millis::from_secs(10),
        ..published
    };
    assert_eq!(parse(text).unwrap().machine.cluster, expected);
}

#[test]
fn the_shipped_file_names_the_defaults_and_every_key_in_it_is_valid() {
    let is_key = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let lines = include_str!("../../config/flowcoord.toml").lines();
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix('#').filter(is_key).unwrap_or(line)).collect();
    let (found, usual) = (parse(&lines.join("\n")).unwrap().machine, Settings::default().machine);
    assert_eq!(found.cluster, ClusterSettings { prices: Some((0.5, 500.0)), ..usual.cluster });
    assert_eq!(CoordinatorSettings { cluster: usual.cluster, rent: None, ..found }, usual);
}

#[test]
fn the_lease_margin_is_long_enough_for_requests_in_flight_and_to_stop_a_job() {
    let margin = |times: &str| parse(&format!("[times]\n{times}\n")).map(|all| all.machine.lease_margin);
    assert_eq!(margin("lease-margin = \"48s\""), Ok(Millis::from_secs(48)));
    assert!(margin("lease-margin = \"47s\"").is_err_and(|why| why.contains("lease-margin must be at least 48s")));
    assert_eq!(margin("look-every = \"500ms\"\nlease-margin = \"44s\""), Ok(Millis::from_secs(44)));
    assert_eq!(margin("look-every = \"10s\""), Ok(Millis::from_secs(72)), "the default is raised");
}

#[test]
fn each_error_names_its_line_or_key() {
    for (text, expected) in [
        ("[cluster]\nplacement = \"best\"\n", "line 2"),
        ("[cluster]\nprocon-limit = 1.5\n", "above 0 and at most 1"),
        ("[cluster]\nspeed = 3\n", "unknown field `speed`"),
        ("[cluster]\nprice-lowest = 3\n", "set both price-lowest and price-highest"),
        ("[cluster]\nprice-lowest = 3\nprice-highest = 2\n", "price-lowest < price-highest"),
        ("[cluster]\nprice-margin = 0.5\n", "price-margin must be from 1"),
        ("[times]\nlease = \"soon\"\n", "expected a duration"),
        ("[times]\nlease = \"2s\"\n", "lease must be longer than twice poll-every"),
        ("[agent]\nkey = \"/a\"\n", "belong together"),
        ("[nodes]\nopen-command = [\"/bin/rent\"]\n", "require close-after"),
        ("[nodes]\nclose-after = \"1h\"\nopen-command = \"rent\"\n", "line 3"),
        ("[agent]\nvolume-most = \"big\"\n", "expected a size"),
    ] {
        let mistake = parse(text).unwrap_err();
        assert!(mistake.contains(expected), "{text}: {mistake}");
    }
}
