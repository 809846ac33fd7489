// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a Redis server with records of a known kind.

use super::Xorshift;
use super::corpora::memory;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use weir_type2::engines::PAGE_BYTES;

/// Commands that are under way at a time.
const BATCH: usize = 500;

/// A server with a socket in a folder of its own; it keeps nothing on disk.
struct RedisServer {
    child: Child,
    folder: PathBuf,
    replies: BufReader<UnixStream>,
}

impl RedisServer {
    fn start(name: &str) -> RedisServer {
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("redis.sock");
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--unixsocket", socket.to_str().unwrap()])
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("package redis-server is installed");
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = said
            .map(|line| line.unwrap())
            .find(|line| line.contains("eady to accept connections"));
        assert!(ready.is_some(), "redis-server ended");
        let stream = UnixStream::connect(&socket).unwrap();
        RedisServer {
            child,
            folder,
            replies: BufReader::new(stream),
        }
    }

    /// Sends commands, and takes the line that answers each.
    fn send(&mut self, commands: &[Vec<Vec<u8>>]) {
        let mut sent = Vec::new();
        for words in commands {
            sent.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                sent.extend(format!("${}\r\n", word.len()).into_bytes());
                sent.extend(word);
                sent.extend(b"\r\n");
            }
        }
        self.replies.get_mut().write_all(&sent).unwrap();
        for _ in commands {
            let mut reply = Vec::new();
            while !reply.ends_with(b"\r\n") {
                let mut byte = [0];
                self.replies.read_exact(&mut byte).unwrap();
                reply.extend(byte);
            }
            let text = String::from_utf8_lossy(&reply).into_owned();
            assert!(!reply.starts_with(b"-"), "{text}");
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// YCSB's random text, from memory of its `RandomByteIterator`: six bytes of a number, each of 5, 6 or 7 bits
/// of it above the space.
fn ycsb_value(random: &mut Xorshift, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes + 6);
    while value.len() < bytes {
        let drawn = random.next();
        for (shift, mask) in [(0, 31), (5, 63), (10, 95), (15, 31), (20, 63), (25, 95)] {
            value.push(((drawn >> shift) & mask) as u8 + b' ');
        }
    }
    value.truncate(bytes);
    value
}

/// A record of YCSB: a hash of ten fields of 100 bytes, named after a hash of its number.
fn ycsb_record(number: u64, random: &mut Xorshift) -> Vec<Vec<u8>> {
    let fnv = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    let mut words = vec![b"HSET".to_vec(), format!("user{fnv}").into_bytes()];
    for field in 0..10 {
        words.push(format!("field{field}").into_bytes());
        words.push(ycsb_value(random, 100));
    }
    words
}

/// A text with the record of a user.
fn json_record(number: u64, random: &mut Xorshift) -> Vec<Vec<u8>> {
    let colours = ["red", "green", "blue", "alpha", "beta"];
    let tags: Vec<&str> = (0..3).map(|_| colours[random.below(5)]).collect();
    let (name, score) = (
        random.below(1_000_000),
        random.next() as f64 / 2.0_f64.powi(53),
    );
    let value = serde_json::json!({
        "id": number,
        "name": format!("user{name}"),
        "mail": format!("user{name}@example.org"),
        "active": random.below(2) == 1,
        "score": score,
        "tags": tags,
        "visits": (0..random.below(8)).map(|_| random.below(100_000)).collect::<Vec<_>>(),
    });
    let key = format!("session:{number}").into_bytes();
    vec![b"SET".to_vec(), key, value.to_string().into_bytes()]
}

/// Memory of a server that holds records; each takes at least `record_bytes` of it.
fn redis_memory(
    name: &str,
    record_bytes: usize,
    pages_max: usize,
    record: fn(u64, &mut Xorshift) -> Vec<Vec<u8>>,
) -> Vec<u8> {
    let mut random = Xorshift::new(23);
    let mut server = RedisServer::start(name);
    let numbers: Vec<u64> = (0..(pages_max * PAGE_BYTES / record_bytes) as u64).collect();
    for batch in numbers.chunks(BATCH) {
        let commands: Vec<_> = batch.iter().map(|n| record(*n, &mut random)).collect();
        server.send(&commands);
    }
    memory(server.child.id(), pages_max)
}

pub fn redis_ycsb(pages_max: usize) -> Vec<u8> {
    redis_memory("ycsb", 1100, pages_max, ycsb_record)
}

pub fn redis_json(pages_max: usize) -> Vec<u8> {
    redis_memory("json", 150, pages_max, json_record)
}
