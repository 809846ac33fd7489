// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics for receivers of Prometheus remote write 1.0: protobuf messages, packed with snappy. A series that
//! ends gets the marker of staleness, so that no server goes on showing its last value.

use super::{Collect, Metric, SampleLabels, SampleValue};
use prost::Message;
use std::collections::BTreeSet;

/// What the standard calls a stale marker: a NaN with these bits.
const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;
/// Series of one request, at most. Receivers bound a request by bytes; Prometheus sends as many.
const SERIES_MAX: usize = 2000;

/// Messages of the protocol (prometheus/prompb, `remote.proto` and `types.proto`), as far as weir fills them.
mod messages {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        pub timeseries: Vec<RemoteSeries>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RemoteSeries {
        #[prost(message, repeated, tag = "1")]
        pub labels: Vec<RemoteLabel>,
        #[prost(message, repeated, tag = "2")]
        pub samples: Vec<RemoteSample>,
    }

    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
    pub struct RemoteLabel {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct RemoteSample {
        #[prost(double, tag = "1")]
        pub value: f64,
        #[prost(int64, tag = "2")]
        pub unix_ms: i64,
    }
}

use messages::{RemoteLabel, RemoteSample, RemoteSeries, WriteRequest};

pub struct RemoteWrite {
    common: Vec<RemoteLabel>,
    name: String,
    unix_ms: i64,
    series: Vec<RemoteSeries>,
    /// The series that had samples in the requests before.
    known: BTreeSet<Vec<RemoteLabel>>,
}

impl RemoteWrite {
    /// All samples get these labels, as those that a server adds to what it scrapes.
    pub fn new(common: &[(&str, &str)]) -> RemoteWrite {
        RemoteWrite {
            common: common.iter().map(|(n, v)| label(n, v)).collect(),
            name: String::new(),
            unix_ms: 0,
            series: Vec::new(),
            known: BTreeSet::new(),
        }
    }

    /// Sets the time of the samples that follow, in milliseconds since the Unix epoch.
    pub fn at(&mut self, unix_ms: u64) {
        self.unix_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    }

    /// Bodies of requests with all samples since the last call, and with markers for series that ended.
    /// Without samples in between all series have ended.
    pub fn requests(&mut self) -> Vec<Vec<u8>> {
        let series = std::mem::take(&mut self.series);
        let known: BTreeSet<_> = series.iter().map(|series| series.labels.clone()).collect();
        let ended: Vec<RemoteSeries> = self
            .known
            .difference(&known)
            .map(|labels| self.series_of(labels.clone(), f64::from_bits(STALE_BITS)))
            .collect();
        self.known = known;
        let mut all = series.into_iter().chain(ended).peekable();
        let mut bodies = Vec::new();
        while all.peek().is_some() {
            bodies.push(packed(all.by_ref().take(SERIES_MAX).collect()));
        }
        bodies
    }

    fn series_of(&self, labels: Vec<RemoteLabel>, value: f64) -> RemoteSeries {
        let unix_ms = self.unix_ms;
        let samples = vec![RemoteSample { value, unix_ms }];
        RemoteSeries { labels, samples }
    }
}

/// Snappy's block format refuses only what exceeds 4 GiB.
fn packed(timeseries: Vec<RemoteSeries>) -> Vec<u8> {
    let message = WriteRequest { timeseries }.encode_to_vec();
    snap::raw::Encoder::new()
        .compress_vec(&message)
        .unwrap_or_default()
}

fn label(name: &str, value: &str) -> RemoteLabel {
    let (name, value) = (name.to_owned(), value.to_owned());
    RemoteLabel { name, value }
}

impl Collect for RemoteWrite {
    fn metric(&mut self, metric: &Metric) {
        self.name.clear();
        self.name.push_str(metric.name);
        self.name.push_str(metric.suffix());
    }

    /// Labels are in the order of their names, and none is empty: the protocol wants it so.
    fn sample(&mut self, labels: SampleLabels<'_>, value: SampleValue) {
        let mut all = self.common.clone();
        all.push(label("__name__", &self.name));
        let cgroup = labels.cgroup.map_or(&[][..], |cgroup| cgroup.pairs());
        all.extend(cgroup.iter().map(|(name, value)| label(name, value)));
        all.extend(labels.more.iter().map(|(name, value)| label(name, value)));
        all.retain(|label| !label.value.is_empty());
        all.sort();
        let value = match value {
            SampleValue::Count(count) => count as f64,
            SampleValue::Real(value) => value,
        };
        let series = self.series_of(all, value);
        self.series.push(series);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: Metric = Metric::counter("weir_x", "", "");

    fn unpacked(body: &[u8]) -> Vec<RemoteSeries> {
        let message = snap::raw::Decoder::new().decompress_vec(body).unwrap();
        WriteRequest::decode(&*message).unwrap().timeseries
    }

    fn add(write: &mut RemoteWrite, devices: &[&str]) {
        write.metric(&METRIC);
        for device in devices {
            let more = [("node", ""), ("device", device)];
            let labels = SampleLabels {
                cgroup: None,
                more: &more,
            };
            write.sample(labels, SampleValue::Count(7));
        }
    }

    /// Bytes by the protocol's own definition, by hand.
    #[test]
    fn a_request_has_the_bytes_of_the_protocol() {
        let mut write = RemoteWrite::new(&[]);
        write.at(5);
        write.metric(&Metric::gauge("g", "", ""));
        let labels = SampleLabels {
            cgroup: None,
            more: &[],
        };
        write.sample(labels, SampleValue::Real(1.0));
        let body = write.requests().remove(0);
        let message = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let name = [
            0x0a, 8, b'_', b'_', b'n', b'a', b'm', b'e', b'_', b'_', 0x12, 1, b'g',
        ];
        let one = 1.0f64.to_le_bytes();
        let mut series = vec![0x0a, 13];
        series.extend(name);
        series.extend([0x12, 11, 0x09]);
        series.extend(one);
        series.extend([0x10, 5]);
        let mut wanted = vec![0x0a, u8::try_from(series.len()).unwrap()];
        wanted.extend(series);
        assert_eq!(message, wanted);
    }

    #[test]
    fn labels_are_in_order_and_series_that_end_are_marked() {
        let mut write = RemoteWrite::new(&[("job", "weir"), ("instance", "a")]);
        write.at(1);
        add(&mut write, &["x", "y"]);
        let first = unpacked(&write.requests()[0]);
        let names: Vec<&str> = first[0].labels.iter().map(|label| &*label.name).collect();
        assert_eq!(names, ["__name__", "device", "instance", "job"]);
        write.at(2);
        add(&mut write, &["x"]);
        let second = unpacked(&write.requests()[0]);
        let values: Vec<u64> = second
            .iter()
            .map(|s| s.samples[0].value.to_bits())
            .collect();
        assert_eq!(values, [7.0f64.to_bits(), STALE_BITS]);
        assert_eq!(second[1].labels, first[1].labels);
        assert_eq!(second[1].samples[0].unix_ms, 2);
        let end = unpacked(&write.requests()[0]);
        assert_eq!(
            (end.len(), end[0].samples[0].value.to_bits()),
            (1, STALE_BITS)
        );
        assert!(write.requests().is_empty());
    }

    #[test]
    fn many_series_are_several_requests() {
        let mut write = RemoteWrite::new(&[]);
        let names: Vec<String> = (0..SERIES_MAX + 1).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        add(&mut write, &names);
        let sizes: Vec<usize> = write
            .requests()
            .iter()
            .map(|body| unpacked(body).len())
            .collect();
        assert_eq!(sizes, [SERIES_MAX, 1]);
    }
}
