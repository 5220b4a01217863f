"""Holds profiles against published schemas: check_profiles.py --speedscope SCHEMA FILE.. or --pprof DESCRIPTORS FILE..

Speedscope: its JSON schema; every frame of a sample exists, and a sample has a weight. pprof: every field is one of profile.proto's; numbers of
strings, locations, functions and mappings exist, and a sample has a value for each type.
"""

import gzip
import json
import sys

import fastjsonschema
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet


def speedscope(schema, files):
    validate = fastjsonschema.compile(json.load(open(schema)))
    for file in files:
        profile = json.load(open(file))
        validate(profile)
        frames = len(profile["shared"]["frames"])
        for thread in profile["profiles"]:
            assert len(thread["samples"]) == len(thread["weights"]), f"{file}: samples without weights"
            assert sum(thread["weights"]) == thread["endValue"] - thread["startValue"], f"{file}: weights do not add up"
            assert all(0 <= frame < frames for stack in thread["samples"] for frame in stack), f"{file}: unknown frame"
        print(f"{file} is as Speedscope's schema says.")


def known(message):
    """Whether the schema knows all fields, to the innermost message."""
    if len(UnknownFieldSet(message)):
        return False
    for field, value in message.ListFields():
        if field.message_type is not None:
            if not all(known(part) for part in (value if field.is_repeated else [value])):
                return False
    return True


def pprof(descriptors, files):
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(open(descriptors, "rb").read()).file:
        pool.Add(file)
    profile_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))
    for file in files:
        profile = profile_class.FromString(gzip.open(file).read())
        assert known(profile), f"{file}: unknown fields"
        strings = profile.string_table
        assert strings[0] == "" and len(set(strings)) == len(strings), f"{file}: wrong strings"
        tables = [{one.id for one in table} for table in (profile.mapping, profile.location, profile.function)]
        mappings, locations, functions = tables
        assert 0 not in mappings | locations | functions, f"{file}: a number is 0"
        texts = [number for kind in profile.sample_type for number in (kind.type, kind.unit)]
        for sample in profile.sample:
            assert len(sample.value) == len(profile.sample_type), f"{file}: a sample lacks values"
            assert locations.issuperset(sample.location_id), f"{file}: unknown location"
            texts += [number for label in sample.label for number in (label.key, label.str)]
        for location in profile.location:
            assert location.mapping_id in mappings | {0} and location.line, f"{file}: wrong location"
            assert functions.issuperset(line.function_id for line in location.line), f"{file}: unknown function"
        for function in profile.function:
            texts += [function.name, function.system_name, function.filename]
        assert all(0 <= number < len(strings) for number in texts), f"{file}: unknown string"
        print(f"{file} is as pprof's schema says: {len(profile.sample)} samples.")


if __name__ == "__main__":
    _, kind, schema, *files = sys.argv
    {"--speedscope": speedscope, "--pprof": pprof}[kind](schema, files)
