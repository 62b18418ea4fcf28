//! The tables of the history. Frequent rows contain only numbers: ids instead of names, codes instead of words.

/// One step per version, applied in order; a released step must never be edited.
pub(super) const STEPS: [&str; 12] = [
    "
    CREATE TABLE job (
        number    INTEGER PRIMARY KEY,
        id        TEXT NOT NULL,
        name      TEXT NOT NULL,
        runtime   INTEGER NOT NULL,
        -- Unix milliseconds.
        started   INTEGER NOT NULL,
        first     INTEGER NOT NULL,
        last      INTEGER NOT NULL,
        ended     INTEGER,
        weight    INTEGER,
        metric    TEXT,
        direction INTEGER,
        unit      INTEGER,
        total     REAL,
        -- Samples before this were dropped.
        kept      INTEGER NOT NULL,
        -- Samples before this were thinned.
        thinned   INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    -- Samples, job by job. They arrive in the order of time, so they wait in `fresh` and are sorted in here many at once: a page is
    -- then written once for several samples.
    CREATE TABLE moment (
        job      INTEGER NOT NULL,
        at       INTEGER NOT NULL, -- milliseconds since the job's first
        cpu      INTEGER,          -- milliseconds
        memory   INTEGER,          -- 64 KiB
        value    INTEGER,          -- packed: six digits and an exponent
        progress INTEGER,          -- thousandths of a unit
        quality  INTEGER,          -- thousandths
        weight   INTEGER,
        flags    INTEGER NOT NULL, -- bit 0 frozen by its engine, 1 turn, 2-3 list, 4-6 hold
        hold     INTEGER,          -- word
        share    INTEGER,          -- ten thousandths
        bound    INTEGER,          -- ten thousandths; NULL = as share
        growth   INTEGER,          -- packed
        rule     INTEGER,          -- NULL = nothing was decided
        a        INTEGER,
        b        INTEGER,
        text     INTEGER,          -- word
        PRIMARY KEY (job, at)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE fresh (
        job INTEGER NOT NULL, at INTEGER NOT NULL, cpu INTEGER, memory INTEGER, value INTEGER, progress INTEGER, quality INTEGER,
        weight INTEGER, flags INTEGER NOT NULL, hold INTEGER, share INTEGER, bound INTEGER, growth INTEGER, rule INTEGER, a INTEGER,
        b INTEGER, text INTEGER
    ) STRICT;
    CREATE TABLE word (
        number INTEGER PRIMARY KEY,
        text   TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE node (
        at        INTEGER PRIMARY KEY,
        cores     INTEGER NOT NULL, -- thousandths
        interval  INTEGER NOT NULL, -- milliseconds
        paused    INTEGER NOT NULL,
        cpu       INTEGER,          -- pressures in thousandths
        memory    INTEGER,
        io        INTEGER,
        policy    INTEGER NOT NULL,
        objective INTEGER NOT NULL, -- thousandths
        threshold INTEGER NOT NULL  -- packed
    ) STRICT;
    CREATE TABLE event (
        sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
        at        INTEGER NOT NULL,
        kind      INTEGER NOT NULL,
        container TEXT,
        name      TEXT,
        text      TEXT NOT NULL
    ) STRICT;
",
    "ALTER TABLE job ADD COLUMN exit_code INTEGER",
    "
    -- Blocks of time with a holdback, by their beginning, and what each job got in them.
    CREATE TABLE block (
        at    INTEGER PRIMARY KEY, -- Unix milliseconds
        until INTEGER NOT NULL,
        plain INTEGER NOT NULL,
        span  INTEGER NOT NULL     -- milliseconds
    ) STRICT;
    CREATE TABLE work (
        block INTEGER NOT NULL,
        job   INTEGER NOT NULL,
        cpu   INTEGER NOT NULL,    -- milliseconds
        PRIMARY KEY (block, job)
    ) STRICT, WITHOUT ROWID;
",
    "
    -- Thousandths of a GPU's time, and 64 KiB of GPU memory.
    ALTER TABLE moment ADD COLUMN gpus INTEGER;
    ALTER TABLE moment ADD COLUMN gpu_memory INTEGER;
    ALTER TABLE fresh ADD COLUMN gpus INTEGER;
    ALTER TABLE fresh ADD COLUMN gpu_memory INTEGER;
",
    "
    -- Otherwise each query about a job reads all of `fresh`. An entry has about 14 bytes, and the table is emptied
    -- every few minutes.
    CREATE INDEX fresh_of_job ON fresh (job, at);
",
    "
    -- The names of renamed jobs before, newest last.
    CREATE TABLE former_name (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        job    INTEGER NOT NULL,
        name   TEXT NOT NULL,
        UNIQUE (job, name)
    ) STRICT;
",
    "
    -- How the job ended, a code; NULL = it runs, or an earlier version recorded its end.
    ALTER TABLE job ADD COLUMN ending INTEGER;
",
    "
    -- Growth efficiency for memory, block I/O and network I/O, packed; `growth` is that for the CPU.
    ALTER TABLE moment ADD COLUMN growth_memory INTEGER;
    ALTER TABLE moment ADD COLUMN growth_block INTEGER;
    ALTER TABLE moment ADD COLUMN growth_network INTEGER;
    ALTER TABLE fresh ADD COLUMN growth_memory INTEGER;
    ALTER TABLE fresh ADD COLUMN growth_block INTEGER;
    ALTER TABLE fresh ADD COLUMN growth_network INTEGER;
",
    "
    -- Whose the job is; and, for a trial, its sweep, the name that its owner gave to the sweep, and the numbers in its command as JSON.
    ALTER TABLE job ADD COLUMN user TEXT;
    ALTER TABLE job ADD COLUMN sweep TEXT;
    ALTER TABLE job ADD COLUMN sweep_name TEXT;
    ALTER TABLE job ADD COLUMN parameters TEXT;
",
    "
    -- What a message about the event says, JSON; NULL = nobody wants one.
    ALTER TABLE event ADD COLUMN alert TEXT;
",
    "
    -- CPU-seconds lost beside other jobs.
    ALTER TABLE job ADD COLUMN lost REAL;
",
    "
    -- Seconds to its end as forecast, with their range, packed; and energy in joules.
    ALTER TABLE moment ADD COLUMN left_low INTEGER;
    ALTER TABLE moment ADD COLUMN left_likely INTEGER;
    ALTER TABLE moment ADD COLUMN left_high INTEGER;
    ALTER TABLE moment ADD COLUMN energy INTEGER;
    ALTER TABLE fresh ADD COLUMN left_low INTEGER;
    ALTER TABLE fresh ADD COLUMN left_likely INTEGER;
    ALTER TABLE fresh ADD COLUMN left_high INTEGER;
    ALTER TABLE fresh ADD COLUMN energy INTEGER;
",
];

/// The latest schema version.
pub(super) const VERSION: i64 = STEPS.len() as i64;
