//===- ChromeTrace.cpp - slices as Chrome's JSON --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/ChromeTrace.h"

#include "machine/limits/MachineLimits.h"
#include "trace/Timeline.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace anabranch::trace {

using nlohmann::json;

namespace {

/// The trace shows each stream as a thread of a process. These process numbers
/// are above the largest one that Linux gives.
constexpr int64_t firstStreamProcess = int64_t(1) << 22;
/// The number of threads that the streams of one call may take. Calls that
/// overlap take one such range after another.
constexpr int64_t streamsPerTrack = 256;

class Writer {
public:
  Writer(std::FILE *file, const Timeline &timeline)
      : file(file), timeline(timeline), process(::getpid()) {}

  bool write() {
    print("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    nameProcess(process, "anabranch workers", 0);
    for (const ThreadRecord &thread : timeline.threads)
      nameThread(process, thread.thread, thread.name, thread.thread);
    for (const TimelineCall &call : timeline.calls)
      writeCall(call);
    print("\n],\"anabranch\":");
    printJson(about());
    print("}\n");
    return good;
  }

private:
  void print(const std::string &text) {
    good =
        good && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  }
  void printJson(const json &value) {
    print(value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  void event(const json &value) {
    if (!first)
      print(",\n");
    first = false;
    printJson(value);
  }

  void nameProcess(int64_t pid, const std::string &name, int64_t place) {
    event({{"ph", "M"},
           {"pid", pid},
           {"name", "process_name"},
           {"args", {{"name", name}}}});
    event({{"ph", "M"},
           {"pid", pid},
           {"name", "process_sort_index"},
           {"args", {{"sort_index", place}}}});
  }

  void nameThread(int64_t pid, int64_t tid, const std::string &name,
                  int64_t place) {
    event({{"ph", "M"},
           {"pid", pid},
           {"tid", tid},
           {"name", "thread_name"},
           {"args", {{"name", name}}}});
    event({{"ph", "M"},
           {"pid", pid},
           {"tid", tid},
           {"name", "thread_sort_index"},
           {"args", {{"sort_index", place}}}});
  }

  double microseconds(int64_t moment) const {
    return static_cast<double>(moment - timeline.origin) / 1e3;
  }

  json slice(const char *category, int64_t pid, int64_t tid, int64_t begin,
             int64_t end, const std::string &name, json args) {
    return {{"ph", "X"},
            {"cat", category},
            {"pid", pid},
            {"tid", tid},
            {"ts", microseconds(begin)},
            {"dur", static_cast<double>(end - begin) / 1e3},
            {"name", name},
            {"args", std::move(args)}};
  }

  json argsOf(const TimelineCall &call, const Execution &execution) {
    const ProgramInfo &program = *call.record.program;
    const Label &label = program.labels[static_cast<size_t>(execution.label)];
    json args = {
        {"call", call.record.id},
        {"command", execution.label},
        {"kind", label.kind},
        {"stream", program.streams[static_cast<size_t>(label.stream)].name},
        {"shapes", shapesOf(label, call.record.slots)}};
    if (!label.operators.empty())
      args["operators"] = label.operators;
    if (!label.file.empty())
      args["source"] = label.file + ":" + std::to_string(label.line);
    if (!label.function.empty())
      args["function"] = label.function;
    if (label.work) {
      args["FLOP"] = valueOf(label.work->flops, call.record.slots);
      args["bytes"] = valueOf(label.work->bytes, call.record.slots);
    }
    if (execution.tiles)
      args["tiles"] = execution.tiles;
    if (label.super >= 0) {
      args["super kernel"] =
          program.labels[static_cast<size_t>(label.super)].name;
      args["part of"] = label.super;
    }
    return args;
  }

  /// Adds the worker's share, if several workers took tiles of one launch.
  static void takeShare(json &args, const Slice &piece, int64_t tiles) {
    if (piece.tiles == tiles)
      return;
    double share =
        static_cast<double>(piece.tiles) / static_cast<double>(tiles);
    args["tiles"] = piece.tiles;
    args["of tiles"] = tiles;
    for (const char *name : {"FLOP", "bytes"})
      if (args.contains(name))
        args[name] = args[name].get<double>() * share;
  }

  void writeCall(const TimelineCall &call) {
    const ProgramInfo &program = *call.record.program;
    int number = numberOf(call);
    event(slice("call", process, timeline.threads[call.thread].thread,
                call.record.begin, call.record.end, program.name,
                {{"call", call.record.id}, {"program", number}}));
    for (const Execution &execution : call.executions) {
      const Label &label = program.labels[static_cast<size_t>(execution.label)];
      json args = argsOf(call, execution);
      // Launches of a super kernel overlap, so the super kernel's own slice
      // stands for them.
      if (label.super < 0)
        event(slice("stream", streamProcess(number), streamTrack(call, label),
                    execution.begin, execution.end, label.name, args));
      for (const Piece &piece : execution.pieces) {
        json shared = args;
        takeShare(shared, piece.slice, execution.tiles);
        event(slice("worker", process, timeline.threads[piece.thread].thread,
                    piece.slice.begin, piece.slice.end, label.name,
                    std::move(shared)));
      }
    }
    writeEvents(call);
  }

  /// Draws an arrow from the command before a record to the command after a
  /// wait.
  void writeEvents(const TimelineCall &call) {
    const ProgramInfo &program = *call.record.program;
    std::map<int, const Execution *> byLabel;
    for (const Execution &execution : call.executions)
      byLabel[execution.label] = &execution;
    for (const EventEdge &edge : program.events) {
      auto from = byLabel.find(edge.from), to = byLabel.find(edge.to);
      if (from == byLabel.end() || to == byLabel.end())
        continue;
      ++arrows;
      // The viewer attaches an arrow to the slice in which its end lies.
      arrow("s", call, *from->second,
            (from->second->begin + from->second->end) / 2);
      arrow("f", call, *to->second, to->second->begin);
    }
  }

  void arrow(const char *phase, const TimelineCall &call,
             const Execution &execution, int64_t moment) {
    const Label &label =
        call.record.program->labels[static_cast<size_t>(execution.label)];
    json value = {{"ph", phase},
                  {"cat", "event"},
                  {"name", "event"},
                  {"id", arrows},
                  {"pid", streamProcess(numberOf(call))},
                  {"tid", streamTrack(call, label)},
                  {"ts", microseconds(moment)}};
    if (*phase == 'f')
      value["bp"] = "e";
    event(value);
  }

  int64_t streamProcess(int number) const {
    return firstStreamProcess * (number + 1) + process;
  }

  int64_t streamTrack(const TimelineCall &call, const Label &label) {
    const ProgramInfo &program = *call.record.program;
    int number = numberOf(call);
    int64_t tid = call.track * streamsPerTrack + label.stream + 1;
    if (named.insert({number, tid}).second) {
      std::string name =
          program.streams[static_cast<size_t>(label.stream)].name;
      if (call.track)
        name += " (call beside " + std::to_string(call.track) + " more)";
      nameThread(streamProcess(number), tid, name, tid);
    }
    return tid;
  }

  int numberOf(const TimelineCall &call) {
    auto [entry, isNew] =
        numbers.try_emplace(call.record.program.get(), programs.size());
    if (isNew) {
      programs.push_back(call.record.program.get());
      nameProcess(streamProcess(entry->second),
                  "streams of " + call.record.program->name, entry->second + 1);
    }
    return entry->second;
  }

  /// The data beside the slices that the page needs.
  json about() const {
    const machine::MachineLimits &limits = machine::machineLimits();
    json list = json::array();
    for (const ProgramInfo *program : programs) {
      json streams = json::array(), commands = json::array(),
           events = json::array();
      for (const StreamInfo &stream : program->streams)
        streams.push_back(
            {{"name", stream.name}, {"priority", stream.priority}});
      for (const Label &label : program->labels)
        commands.push_back(label.stream);
      for (const EventEdge &edge : program->events)
        events.push_back({edge.from, edge.to});
      list.push_back({{"name", program->name},
                      {"streams", streams},
                      {"stream of command", commands},
                      {"events", events}});
    }
    return {{"version", 1},
            {"process", process},
            {"dropped slices", timeline.dropped},
            {"programs", list},
            {"machine",
             {{"cpu", limits.cpu},
              {"gflops", limits.gflops},
              {"gflops_all", limits.gflopsAll},
              {"cache_gbs", limits.cacheGBs},
              {"memory_gbs", limits.memoryGBs},
              {"memory_gbs_all", limits.memoryGBsAll}}}};
  }

  std::FILE *file;
  const Timeline &timeline;
  const int64_t process;
  bool good = true, first = true;
  int64_t arrows = 0;
  std::map<const ProgramInfo *, int> numbers;
  std::vector<const ProgramInfo *> programs;
  std::set<std::pair<int, int64_t>> named;
};

} // namespace

Status writeChromeTrace(const std::string &path,
                        std::vector<ThreadRecord> threads) {
  Timeline timeline = makeTimeline(std::move(threads));
  std::FILE *file = std::fopen(path.c_str(), "we");
  bool ok = file && Writer(file, timeline).write();
  ok = file && std::fclose(file) == 0 && ok;
  return ok ? Status()
            : Status(StatusCode::IoError, "cannot write the trace " + path);
}

} // namespace anabranch::trace
