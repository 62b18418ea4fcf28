//! The tables of the database, by version.

/// One step per version, applied in order; a released step must never be edited.
pub(super) const STEPS: [&str; 8] = [
    "
    CREATE TABLE original (
        id                 TEXT PRIMARY KEY,
        runtime            TEXT NOT NULL,
        name               TEXT NOT NULL,
        cgroup             TEXT NOT NULL,
        boot_id            TEXT NOT NULL,
        started_unix_ms    INTEGER NOT NULL,
        remembered_unix_ms INTEGER NOT NULL,
        -- The limits before the first change; NULL: the kernel has no such file. -1: unlimited.
        cpu_weight         INTEGER,
        cpu_quota          INTEGER,
        memory_low         INTEGER,
        memory_high        INTEGER,
        io_weight          INTEGER,
        -- The same in the engine's own numbers; NULL: no engine.
        engine_cpu_shares         INTEGER,
        engine_nano_cpus          INTEGER,
        engine_cpu_quota          INTEGER,
        engine_cpu_period         INTEGER,
        engine_memory             INTEGER,
        engine_memory_reservation INTEGER,
        engine_blkio_weight       INTEGER
    ) STRICT;
    CREATE TABLE written (
        id      TEXT NOT NULL REFERENCES original (id) ON DELETE CASCADE,
        setting TEXT NOT NULL,
        value   INTEGER NOT NULL,
        PRIMARY KEY (id, setting)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE position (
        id         TEXT PRIMARY KEY,
        source     TEXT NOT NULL,
        -- file: device, inode, offset, Unix nanoseconds of its birth or 0. api: Unix nanoseconds and messages of that instant, for output and error.
        first      INTEGER NOT NULL,
        second     INTEGER NOT NULL,
        third      INTEGER NOT NULL,
        fourth     INTEGER NOT NULL,
        checkpoint TEXT
    ) STRICT;
",
    "
    -- Several values of one setting: the one that is about to be written, and the one of ours that stands until then.
    CREATE TABLE may_stand (
        id      TEXT NOT NULL REFERENCES original (id) ON DELETE CASCADE,
        setting TEXT NOT NULL,
        value   INTEGER NOT NULL,
        PRIMARY KEY (id, setting, value)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO may_stand SELECT id, setting, value FROM written;
    DROP TABLE written;
    ALTER TABLE may_stand RENAME TO written;
",
    "
    CREATE TABLE adopted (
        id      TEXT PRIMARY KEY,
        name    TEXT NOT NULL,
        unix_ms INTEGER NOT NULL,
        -- A JSON object of strings.
        labels  TEXT NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE precedent (
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        training TEXT NOT NULL,
        unix_ms  INTEGER NOT NULL,
        curve    TEXT NOT NULL
    ) STRICT;
",
    "
    -- Which engine the container is in; NULL: none, or one that an earlier version did not note.
    ALTER TABLE original ADD COLUMN engine_id TEXT;
    ALTER TABLE original ADD COLUMN engine_socket TEXT;
",
    "
    CREATE TABLE freezable (
        id      TEXT PRIMARY KEY,
        runtime TEXT NOT NULL,
        name    TEXT NOT NULL,
        -- The directory that has its freezer.
        cgroup  TEXT NOT NULL,
        boot_id TEXT NOT NULL,
        -- 1: its engine has paused it, as far as is known.
        paused  INTEGER NOT NULL
    ) STRICT;
",
    "
    -- When a damaged database was set aside: the originals of containers that ran then are lost.
    CREATE TABLE loss (unix_ms INTEGER NOT NULL) STRICT;
    -- When the run began that the checkpoint belongs to; NULL: written by an earlier version.
    ALTER TABLE position ADD COLUMN started_unix_ms INTEGER;
",
    "
    -- CPU-seconds that each user had used at a time; those of the past count less.
    CREATE TABLE used (
        user    TEXT PRIMARY KEY,
        cpu_s   REAL NOT NULL,
        unix_ms INTEGER NOT NULL
    ) STRICT;
",
];
