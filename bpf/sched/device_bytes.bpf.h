/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes transferred by a device since the last tick: read from its counters through the driver's kfunc or,
 * without the driver, extrapolated from the daemon's last sample. A part of main.bpf.c.
 */
#ifndef WEIR_DEVICE_BYTES_BPF_H
#define WEIR_DEVICE_BYTES_BPF_H

/*
 * By its counters; false if they cannot be read or were not read at the last tick. Those that cannot be read
 * are not tried at each tick.
 */
static bool device_bytes_read(struct device_cfg *dcfg, struct device_ctx *dctx, u64 *bytes)
{
	u64 sum = 0, one, i;
	bool was_known = dctx->is_known;

	if (!weir_cxl_counter_read)
		return false;
	if (dctx->retry_ns && bpf_ktime_get_ns() < dctx->retry_at_ns) {
		dctx->lost++;
		return false;
	}
	for (i = 0; i < MAX_NODES; i++) {
		if (i >= dcfg->node_count)
			break;
		one = 0;
		if (weir_cxl_counter_read((int)dcfg->nodes[i], false, &one))
			goto lost;
		sum += one;
		one = 0;
		if (weir_cxl_counter_read((int)dcfg->nodes[i], true, &one))
			goto lost;
		sum += one;
	}
	*bytes = sum - dctx->last_count;
	dctx->last_count = sum;
	dctx->is_known = 1;
	dctx->retry_ns = 0;
	return was_known;
lost:
	dctx->is_known = 0;
	dctx->lost++;
	dctx->failed_reads++;
	dctx->retry_ns = weir_retry_ns(dctx->retry_ns);
	/* From the end of a read, which may have taken longer than the wait. */
	dctx->retry_at_ns = bpf_ktime_get_ns() + dctx->retry_ns;
	return false;
}

/* By the daemon's samples, and between two of them by estimates. */
static bool device_bytes_reported(u64 index, struct device_cfg *dcfg, struct device_ctx *dctx, u64 begun, u64 dt, u64 *bytes)
{
	u32 key = index & (MAX_DEVICES - 1);
	struct device_sample *sample = bpf_map_lookup_elem(&device_samples, &key);
	struct weir_ext_count ext = {
		.bytes = dctx->ext_bytes,
		.at_ns = dctx->ext_ns,
		.estimated_bytes = dctx->ext_estimated_bytes,
		.error_bytes = (s64)dctx->ext_error_bytes,
		.spread_ns = dctx->ext_spread_ns,
	};
	bool is_limiting = dcfg->carry_bytes;
	u64 at_ns;

	dctx->is_known = 0;
	if (!sample)
		return false;
	at_ns = sample->at_ns;
	if (!at_ns || begun > at_ns + WEIR_NS_PER_SEC)
		return false;
	/* Bytes from before the first limit are no debt. */
	if (is_limiting != (bool)dctx->is_limiting)
		ext.error_bytes = 0;
	dctx->is_limiting = is_limiting;
	*bytes = weir_ext_count_advance(&ext, dctx->capped_bytes, dt);
	if (at_ns != ext.at_ns) {
		weir_ext_count_update(&ext, sample->bytes, at_ns, weir_ext_count_tail(dctx->capped_bytes, at_ns, begun, dt),
			  (s64)weir_bytes(dcfg->set_point_bytes_per_sec, WEIR_EXT_ERROR_NS));
		dctx->ext_updates += ext.at_ns != dctx->ext_ns;
	}
	dctx->ext_bytes = ext.bytes;
	dctx->ext_ns = ext.at_ns;
	dctx->ext_estimated_bytes = ext.estimated_bytes;
	dctx->ext_error_bytes = (u64)ext.error_bytes;
	dctx->ext_spread_ns = ext.spread_ns;
	dctx->is_known = 1;
	return true;
}

#endif /* WEIR_DEVICE_BYTES_BPF_H */
