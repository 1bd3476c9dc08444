//! Redis servers of the tests' own.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for any machine: no test's pass depends on how fast it is.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// A server on a port of its own, which ends with this.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    folder: Folder,
    options: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With further options, as on its command line.
    pub(crate) fn with(options: &[&str]) -> Self {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = Folder::new();
        // Another process may take the port in between.
        for _ in 0..10 {
            let port = free_port();
            if let Some(process) = spawn(port, &options, folder.path()) {
                return Self {
                    process,
                    port,
                    folder,
                    options,
                };
            }
        }
        panic!("redis-server did not start on ten ports in a row");
    }

    /// On a port that is known to be free.
    pub(crate) fn at(port: u16) -> Self {
        let folder = Folder::new();
        Self {
            process: spawn(port, &[], folder.path()).expect("the port is free"),
            port,
            folder,
            options: Vec::new(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of the test's own.
    pub(crate) fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("an address");
        client.get_connection().expect("the server runs")
    }

    /// Runs a command.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        ask(&mut self.connection(), command)
    }

    /// Runs a command that changes nothing on a server that may drop its clients meanwhile, as Sentinel has it do when it
    /// changes its role. None if it did.
    pub(crate) fn look<T: redis::FromRedisValue>(&self, command: &[&str]) -> Option<T> {
        let client = redis::Client::open(self.url()).expect("an address");
        let looked = client.get_connection().and_then(|mut it| query(&mut it, command));
        looked
            .map_err(|error| assert!(error.is_io_error(), "{command:?}: {error}"))
            .ok()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again on the same port, with nothing in it.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let started = spawn(self.port, &self.options, self.folder.path());
        self.process = started.expect("its port is free again");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn ask<T: redis::FromRedisValue>(connection: &mut redis::Connection, command: &[&str]) -> T {
    query(connection, command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn query<T: redis::FromRedisValue>(connection: &mut redis::Connection, command: &[&str]) -> redis::RedisResult<T> {
    redis::cmd(command[0]).arg(&command[1..]).query(connection)
}

/// None if it ended at once.
fn spawn(port: u16, options: &[String], folder: &Path) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no"]).args(options);
    wait_for(command, folder)
}

/// The process, once it says that it is up.
fn wait_for(mut command: Command, folder: &Path) -> Option<Child> {
    let started = command
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut process = started.unwrap_or_else(|error| {
        panic!(
            "these tests need `redis-server` ({error}); `bash scripts/test.sh` installs it, as does \
             `apt-get install redis-server`"
        )
    });
    let output = process.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let is_up = lines.any(|line| line.contains("Ready to accept connections") || line.contains("Sentinel ID"));
    // Read on, so that it never waits for us.
    thread::spawn(move || lines.for_each(drop));
    if !is_up {
        let _ = process.kill();
        let _ = process.wait();
        return None;
    }
    Some(process)
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A folder that is removed with this.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tower-throttle-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Waits until something is so, of which a server decides when.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENT, "{what}: not within {PATIENT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A master, a replica of it, and a sentinel that watches them.
pub(crate) struct Sentinel {
    pub(crate) master: Server,
    pub(crate) replica: Server,
    pub(crate) sentinel: Server,
}

impl Sentinel {
    pub(crate) const MASTER: &str = "mymaster";

    pub(crate) fn start() -> Self {
        let master = Server::start();
        let replica = Server::with(&[
            "--replicaof",
            "127.0.0.1",
            &master.port.to_string(),
            "--repl-diskless-sync-delay",
            "0",
        ]);
        let config = format!(
            "sentinel monitor {name} 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds {name} 400\n\
             sentinel failover-timeout {name} 2000\n",
            name = Self::MASTER,
            port = master.port
        );
        let sentinel = Server::sentinel(&config);
        let this = Self {
            master,
            replica,
            sentinel,
        };
        this.wait("the replica is known", |this| {
            let known: Vec<redis::Value> = this.sentinel.ask(&["SENTINEL", "replicas", Self::MASTER]);
            let info: Option<String> = this.replica.look(&["INFO", "replication"]);
            known.len() == 1 && info.is_some_and(|info| info.contains("master_link_status:up"))
        });
        this
    }

    pub(crate) fn url(&self) -> String {
        self.sentinel.url()
    }

    /// Whether the replica is the master now.
    pub(crate) fn has_failed_over(&self) -> bool {
        let role: Option<Vec<redis::Value>> = self.replica.look(&["ROLE"]);
        let address: Vec<String> = self
            .sentinel
            .ask(&["SENTINEL", "get-master-addr-by-name", Self::MASTER]);
        role.is_some_and(|role| role[0] == redis::Value::BulkString(b"master".to_vec()))
            && address[1] == self.replica.port.to_string()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < 3 * PATIENT, "{what}: not within {:?}", 3 * PATIENT);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Server {
    fn sentinel(config: &str) -> Self {
        let folder = Folder::new();
        let path = folder.path().join("sentinel.conf");
        std::fs::write(&path, config).expect("a file");
        let options = vec!["--sentinel".to_owned()];
        for _ in 0..10 {
            let port = free_port();
            std::fs::write(&path, format!("port {port}\nbind 127.0.0.1\n{config}")).expect("a file");
            let mut command = Command::new("redis-server");
            command.arg(&path).arg("--sentinel");
            if let Some(process) = wait_for(command, folder.path()) {
                return Self {
                    process,
                    port,
                    folder,
                    options,
                };
            }
        }
        panic!("a sentinel did not start on ten ports in a row");
    }
}
