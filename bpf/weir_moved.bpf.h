/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a device has moved since the last tick: by its counters, where they can be read from here, else by what the
 * daemon saw. A part of weir.bpf.c.
 */
#ifndef WEIR_MOVED_BPF_H
#define WEIR_MOVED_BPF_H

/* By its counters; false if that is not known. */
static bool counted_since(struct weir_device *device, struct weir_meter *meter, u64 *bytes)
{
	u64 sum = 0, one, i;
	bool was_known = meter->is_known;

	if (!weir_cxl_counter_read)
		return false;
	for (i = 0; i < WEIR_NODES; i++) {
		if (i >= device->node_count)
			break;
		one = 0;
		if (weir_cxl_counter_read((int)device->nodes[i], false, &one))
			goto lost;
		sum += one;
		one = 0;
		if (weir_cxl_counter_read((int)device->nodes[i], true, &one))
			goto lost;
		sum += one;
	}
	*bytes = sum - meter->counted;
	meter->counted = sum;
	meter->is_known = 1;
	return was_known;
lost:
	meter->is_known = 0;
	meter->lost++;
	return false;
}

/* The same by what the daemon saw, and between two looks of its by estimates. */
static bool told_since(u64 index, struct weir_device *device, struct weir_meter *meter, u64 begun, u64 dt, u64 *bytes)
{
	u32 key = index & (WEIR_DEVICES - 1);
	struct weir_seen *seen = bpf_map_lookup_elem(&weir_seen, &key);
	struct weir_looks looks = {
		.seen_bytes = meter->seen_bytes,
		.seen_ns = meter->seen_ns,
		.guessed_bytes = meter->guessed_bytes,
		.missed_bytes = (s64)meter->missed_bytes,
		.spread_ns = meter->spread_ns,
	};
	bool is_limiting = device->carry_bytes;
	u64 at_ns;

	meter->is_known = 0;
	if (!seen)
		return false;
	at_ns = seen->at_ns;
	if (!at_ns || begun > at_ns + WEIR_NS_PER_SEC)
		return false;
	/* What was moved before anybody was limited is nobody's debt. */
	if (is_limiting != (bool)meter->is_limiting)
		looks.missed_bytes = 0;
	meter->is_limiting = is_limiting;
	*bytes = weir_taken(&looks, meter->guarded_bytes, dt);
	if (at_ns != looks.seen_ns) {
		weir_look(&looks, seen->bytes, at_ns, weir_after(meter->guarded_bytes, at_ns, begun, dt),
			  (s64)weir_bytes(device->set_point_bytes_per_sec, MISSED_NS));
		meter->looks += looks.seen_ns != meter->seen_ns;
	}
	meter->seen_bytes = looks.seen_bytes;
	meter->seen_ns = looks.seen_ns;
	meter->guessed_bytes = looks.guessed_bytes;
	meter->missed_bytes = (u64)looks.missed_bytes;
	meter->spread_ns = looks.spread_ns;
	meter->is_known = 1;
	return true;
}

#endif /* WEIR_MOVED_BPF_H */
