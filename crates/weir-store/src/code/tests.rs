// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;

#[derive(Default)]
struct Table(Vec<String>);

impl Texts for Table {
    type Error = Infallible;
    fn number(&mut self, text: &str) -> Result<u64, Infallible> {
        let known = self.0.iter().position(|t| t == text);
        let place = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        Ok(place as u64)
    }
}

impl Lookup for Table {
    fn text(&mut self, number: u64) -> Option<String> {
        self.0.get(usize::try_from(number).ok()?).cloned()
    }
}

fn coded(documents: &[Value]) -> (Vec<Vec<u8>>, Table) {
    let mut table = Table::default();
    let mut writer = Writer::default();
    let write = |document: &Value| {
        writer.take(document).unwrap();
        match writer.write(&mut table) {
            Ok(bytes) => bytes,
            Err(never) => match never {},
        }
    };
    (documents.iter().map(write).collect(), table)
}

fn bits(value: &Value) -> String {
    // Text tells −0.0 from 0.0 and 1 from 1.0, which `==` does not always.
    value.to_string()
}

fn look(n: u64) -> Value {
    json!({"seq": n, "at": 1_000_000_000 * n, "workloads": [
        {"id": "/a", "cpu_ns": {"at": 1_000_000_000 * n + 5000, "value": {"Ok": 400_000 * n}}, "weight": 100.0},
        {"id": "/b", "cpu_ns": {"at": 1_000_000_000 * n + 9000, "value": {"Ok": 900_000 * n}}, "weight": 100.0},
    ]})
}

#[test]
fn a_counter_that_goes_on_costs_a_few_bytes() {
    let (coded, _) = coded(&[look(1), look(2), look(3)]);
    assert!(coded[2].len() <= 40, "{:?}", coded[2]);
    assert!(coded[0].len() > coded[2].len());
}

#[test]
fn one_workload_more_or_less_does_not_change_the_others() {
    let many = |skip: usize| {
        let names = (0..200).filter(|n| *n != skip);
        let list: Vec<Value> = names
            .map(|n| json!({"id": format!("/w{n:03}"), "weight": 100.0}))
            .collect();
        json!({ "workloads": list })
    };
    let (coded, _) = coded(&[many(200), many(0), many(100), many(100)]);
    assert!(coded[1].len() < 12, "{:?}", coded[1]);
    assert!(coded[2].len() < 40, "{:?}", coded[2]);
    assert_eq!(coded[3], [SAME]);
}

#[test]
fn names_of_members_are_in_order() {
    // Bits stand for members in this order; serde_json's feature `preserve_order` would change it.
    let mut map = Map::new();
    for name in ["c", "a", "b"] {
        map.insert(name.into(), Value::Null);
    }
    assert!(map.keys().eq(["a", "b", "c"]));
}

/// Through the bytes and back.
fn told<S: Serialize>(document: &S) -> Value {
    let (mut writer, mut table) = (Writer::default(), Table::default());
    writer.take(document).unwrap();
    let bytes = match writer.write(&mut table) {
        Ok(bytes) => bytes,
        Err(never) => match never {},
    };
    Reader::default().read(&bytes, &mut table).unwrap().clone()
}

#[derive(Serialize)]
struct Unit;
#[derive(Serialize)]
struct New(i8);
#[derive(Serialize)]
struct Pair(u8, i16);
#[derive(Serialize)]
struct Inner {
    z: f32,
    a: Option<char>,
    #[serde(flatten)]
    more: BTreeMap<String, u32>,
}
#[derive(Serialize)]
enum Kind {
    Unit,
    New(f64),
    Pair(bool, ()),
    Named { y: i32, x: Option<u16> },
}

#[test]
fn any_type_is_told_as_serde_json_tells_it() {
    let more = [
        ("m".to_owned(), 1),
        ("b".to_owned(), 2),
        ("a".to_owned(), 3),
    ];
    let document = (
        (
            Unit,
            New(-3),
            Pair(1, -2),
            [0.5, f64::NAN, -f64::INFINITY, -0.0],
        ),
        Inner {
            z: 0.1,
            a: Some('ß'),
            more: more.into(),
        },
        [
            Kind::Unit,
            Kind::New(2.0),
            Kind::Pair(true, ()),
            Kind::Named { y: -1, x: None },
        ],
        (
            BTreeMap::from([(10u8, "ten"), (9, "nine")]),
            BTreeMap::from([(true, 1), (false, 0)]),
        ),
        BTreeMap::from([(i64::MIN, u64::MAX)]),
        (
            Vec::<u8>::new(),
            BTreeMap::<String, u8>::new(),
            "",
            i64::MAX,
            format_args!("{}", 1),
        ),
    );
    assert_eq!(
        bits(&told(&document)),
        bits(&serde_json::to_value(&document).unwrap())
    );
    // No text can be made of a key that is a list.
    let mut writer = Writer::default();
    assert!(writer.take(&BTreeMap::from([((1, 2), 3)])).is_err());
}

#[test]
fn bytes_cannot_grow_without_end() {
    // Each document is a list of two copies of the one before: 2^n values after n documents.
    let mut table = Table(vec!["x".repeat(1000)]);
    let mut reader = Reader::default();
    let mut result = reader
        .read(&[LIST, 1, LIST, 2, TEXT, 0, TEXT, 0], &mut table)
        .map(|_| ());
    for _ in 0..40 {
        let twice = [ITEMS, 1, ITEM_CHANGED, LIST, 2, SAME, SAME];
        result = result.and_then(|()| reader.read(&twice, &mut table).map(|_| ()));
    }
    assert!(result.is_err());
    assert!(
        reader.read(&[LIST, 1].repeat(1000), &mut table).is_err(),
        "depth"
    );
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(-0.0)),
        Just(json!(0.0)),
    ]
}

fn any_document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_number(),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        let name = prop_oneof![Just("at".to_owned()), Just("id".to_owned()), "[a-h]"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..9)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(documents in prop::collection::vec(any_document(), 1..8)) {
        let (coded, mut table) = coded(&documents);
        let mut reader = Reader::default();
        for (bytes, document) in coded.iter().zip(&documents) {
            let read = reader.read(bytes, &mut table).map(bits);
            prop_assert_eq!(read, Ok(bits(document)));
        }
    }

    #[test]
    fn no_bytes_panic(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..6)) {
        let mut table = Table(vec!["at".into(), "id".into(), "a".into()]);
        let mut reader = Reader::default();
        let _ = reader.read(&[OBJECT, 1, 1, LIST, 2, UINT, 1, NULL], &mut table);
        for bytes in all {
            let _ = reader.read(&bytes, &mut table);
        }
    }

    #[test]
    fn no_flipped_bit_panics(n in 1u64..5, at: prop::sample::Index, bit in 0u8..8) {
        let documents: Vec<Value> = (0..n + 1).map(look).collect();
        let (mut coded, mut table) = coded(&documents);
        let which = at.index(coded.len());
        let place = at.index(coded[which].len());
        coded[which][place] ^= 1 << bit;
        let mut reader = Reader::default();
        for bytes in &coded {
            let _ = reader.read(bytes, &mut table);
        }
    }
}
