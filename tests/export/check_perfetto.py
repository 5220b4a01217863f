"""Holds Perfetto traces against the published schema: check_perfetto.py FILE.. [--counts CATEGORY=N ..]

Every field must be one of the schema, with the schema's type. Tracks are told before they are used, times of a track do not step back,
slices and flows have both ends, and numbers of texts are told before they are used.
"""

import sys
from collections import Counter

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def fail(file, packet, why):
    sys.exit(f"{file}: {why}:\n{packet}")


def known(message):
    """Whether the schema knows all fields and enumerators, to the innermost message."""
    if len(UnknownFieldSet(message)) or not message.IsInitialized():
        return False
    for field, value in message.ListFields():
        if field.message_type is not None:
            if not all(known(part) for part in (value if hasattr(value, "__len__") else [value])):
                return False
    return True


class Samples:
    """Samples are on a sequence of their own; what a stack needs is told before it is used, or with it."""

    def __init__(self, file):
        self.file, self.told, self.time = file, {}, 0

    def add(self, packet):
        if packet.sequence_flags & 1:
            self.told = {}
        for table, entries in packet.interned_data.ListFields():
            self.told.setdefault(table.name, {}).update((entry.iid, entry) for entry in entries)
        try:
            frames = []
            if packet.perf_sample.callstack_iid:
                frames = self.told["callstacks"][packet.perf_sample.callstack_iid].frame_ids
            for frame in (self.told["frames"][iid] for iid in frames):
                self.told["function_names"][frame.function_name_id]
                self.told["mappings"][frame.mapping_id]
        except KeyError as missing:
            fail(self.file, packet, f"{missing} is not told")
        if packet.timestamp < self.time or packet.trusted_packet_sequence_id == 1:
            fail(self.file, packet, "a sample is out of order, or among the events")
        self.time = packet.timestamp


def check(file):
    trace = Trace()
    with open(file, "rb") as stream:
        trace.ParseFromString(stream.read())
    if len(UnknownFieldSet(trace)):
        fail(file, "", "the file has fields that Trace has not")
    samples = Samples(file)
    tracks, open_slices, last, flows, texts, begun = {}, Counter(), Counter(), {}, {}, Counter()
    for packet in trace.packet:
        if not known(packet):
            fail(file, packet, "a field is not in the schema")
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if not track.uuid or (track.parent_uuid and track.parent_uuid not in tracks):
                fail(file, packet, "a track without a number, or in one that is not told")
            kind = (track.parent_uuid, track.HasField("process"), track.HasField("thread"), track.HasField("counter"))
            if tracks.setdefault(track.uuid, kind) != kind:
                fail(file, packet, "a track becomes another one")
            continue
        if packet.HasField("perf_sample"):
            samples.add(packet)
            begun["samples"] += 1
            continue
        if not packet.HasField("track_event"):
            fail(file, packet, "neither a track nor an event")
        if packet.sequence_flags & 1:
            texts = {}
        for table, entries in packet.interned_data.ListFields():
            for entry in entries:
                if texts.setdefault((table.name, entry.iid), entry.name) != entry.name:
                    fail(file, packet, "a text's number is used again")
        event = packet.track_event
        used = [("event_names", event.name_iid)] if event.name_iid else []
        used += [("event_categories", iid) for iid in event.category_iids]
        used += [("debug_annotation_names", note.name_iid) for note in event.debug_annotations]
        if any(text not in texts for text in used):
            fail(file, packet, "a text is not told")
        track, time = event.track_uuid, packet.timestamp
        if track not in tracks or time < last[track]:
            fail(file, packet, "a track that is not told, or whose time steps back")
        last[track] = time
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[track] += 1
            begun[texts["event_categories", event.category_iids[0]]] += 1
            if not event.name_iid:
                fail(file, packet, "a slice without a name")
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[track] -= 1
            if open_slices[track] < 0:
                fail(file, packet, "an end without a beginning")
        elif event.type == TrackEvent.TYPE_COUNTER:
            if not tracks[track][3] or not event.HasField("counter_value"):
                fail(file, packet, "a counter without a value, or on another track")
        elif event.type != TrackEvent.TYPE_INSTANT:
            fail(file, packet, "an event of no kind")
        for flow in event.flow_ids:
            if flow in flows:
                fail(file, packet, "a flow begins twice")
            flows[flow] = time
        for flow in event.terminating_flow_ids:
            if flows.pop(flow, time + 1) > time:
                fail(file, packet, "a flow ends before it begins, or twice")
            flows[flow] = float("inf")
    if any(open_slices.values()):
        fail(file, open_slices, "slices are open at the end")
    if any(since != float("inf") for since in flows.values()):
        fail(file, flows, "flows are open at the end")
    print(f"{file}: {len(trace.packet)} packets, {len(tracks)} tracks, {begun.total()} slices, {len(flows)} flows")
    return begun


at = sys.argv.index("--counts") if "--counts" in sys.argv else len(sys.argv)
total = sum((check(file) for file in sys.argv[1:at]), Counter())
for wanted in sys.argv[at + 1 :]:
    category, count = wanted.split("=")
    if total[category] != int(count):
        sys.exit(f"there are {total[category]} slices of {category}, and {count} are right")
