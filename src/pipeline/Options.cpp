//===- Options.cpp - what a compilation may be asked for ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "pipeline/Options.h"

#include "kernels/contraction/BlockingParameters.h"
#include "pipeline/Phases.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cstdlib>

using namespace llvm;

namespace anabranch {
namespace pipeline {

static Error bad(const Twine &message) {
  return createStringError(llvm::inconvertibleErrorCode(), message);
}

static Error setString(const json::Value &value, StringRef key,
                       std::string &out) {
  if (value.kind() == json::Value::Null)
    return Error::success();
  std::optional<StringRef> text = value.getAsString();
  if (!text)
    return bad("option '" + key + "' must be a string");
  out = text->str();
  return Error::success();
}

static Error setFlag(const json::Value &value, StringRef key, bool &out) {
  std::optional<bool> flag = value.getAsBoolean();
  if (!flag)
    return bad("option '" + key + "' must be true or false");
  out = *flag;
  return Error::success();
}

/// Reads an option that is one of two words. `out` becomes true for the second.
static Error setWord(const json::Value &value, StringRef key, StringRef first,
                     StringRef second, bool &out) {
  std::string word;
  if (Error error = setString(value, key, word))
    return error;
  if (word != first && word != second)
    return bad("option '" + key + "' must be \"" + first + "\" or \"" + second +
               "\"");
  out = word == second;
  return Error::success();
}

static Error setMachine(const json::Value &value, StringRef, Options &options) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return bad("option 'machine' must be an object");
  auto number = [&](StringRef key, double &out, bool mayBeZero = false) {
    std::optional<double> found = object->getNumber(key);
    if (!found || *found < 0 || (*found == 0 && !mayBeZero))
      return false;
    out = *found;
    return true;
  };
  double workers = 1;
  machine::MachineRates &machine = options.streams.machine;
  if (!number("workers", workers) || workers > 1024 ||
      !number("gflops", machine.gflops) ||
      !number("gflops_all", machine.gflopsAll) ||
      !number("cache_gbs", machine.cacheGBs) ||
      !number("cache_gbs_all", machine.cacheGBsAll) ||
      // With one CPU there is no other worker to wake.
      !number("wake_us", machine.wakeMicroseconds, /*mayBeZero=*/true))
    return bad("option 'machine' needs workers, gflops, gflops_all, cache_gbs "
               "and cache_gbs_all above zero, and wake_us");
  machine.workers = static_cast<int>(workers);
  options.streams.find = true;
  return Error::success();
}

static Error setBindings(const json::Value &value, StringRef,
                         Options &options) {
  auto wrong = [] {
    return bad("option 'bindings' must be a list of objects of sizes");
  };
  const json::Array *list = value.getAsArray();
  if (!list || list->size() > 1024)
    return wrong();
  for (const json::Value &entry : *list) {
    const json::Object *object = entry.getAsObject();
    if (!object)
      return wrong();
    Binding &binding = options.bindings.emplace_back();
    for (const auto &[symbol, size] : *object) {
      std::optional<int64_t> number = size.getAsInteger();
      if (!number)
        return wrong();
      binding[symbol] = *number;
    }
  }
  return Error::success();
}

static Error setBlockings(const json::Value &value, StringRef,
                          Options &options) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return bad("option 'blockings' must be an object of texts");
  for (const auto &[key, text] : *object) {
    std::optional<StringRef> parameters = text.getAsString();
    if (!parameters || !kernels::BlockingParameters::parse(*parameters))
      return bad("option 'blockings' has no blocking at '" + StringRef(key) +
                 "'");
    options.blockings[key] = parameters->str();
  }
  return Error::success();
}

template <auto Member>
static Error setCount(const json::Value &value, StringRef key,
                      Options &options) {
  constexpr int64_t most = 1024;
  std::optional<int64_t> number = value.getAsInteger();
  if (!number || *number < 0 || *number > most)
    return bad("option '" + key + "' must be a number from 0 to " +
               Twine(most));
  options.*Member = *number;
  return Error::success();
}

template <auto Member>
static Error setMember(const json::Value &value, StringRef key,
                       Options &options) {
  if constexpr (std::is_same_v<decltype(Member), bool Options::*>)
    return setFlag(value, key, options.*Member);
  else
    return setString(value, key, options.*Member);
}

static Error setHazards(const json::Value &value, StringRef key,
                        Options &options) {
  return setWord(value, key, "error", "wait", options.streams.repairHazards);
}

static Error setSuperKernels(const json::Value &value, StringRef key,
                             Options &options) {
  return setWord(value, key, "marked", "auto", options.streams.supers.find);
}

static Error setPanels(const json::Value &value, StringRef key,
                       Options &options) {
  bool any = false;
  if (Error error = setWord(value, key, "best", "alike", any))
    return error;
  options.products.panels =
      any ? kernels::PanelsFor::AnyRows : kernels::PanelsFor::Rows;
  return Error::success();
}

static Error setActivations(const json::Value &value, StringRef key,
                            Options &options) {
  bool rounded = false;
  if (Error error = setWord(value, key, "exact", "int8", rounded))
    return error;
  options.products.roundsLeft = rounded;
  return Error::success();
}

static Error setConfig(const json::Value &value, StringRef, Options &options) {
  options.config = formatv("{0}", value);
  return Error::success();
}

/// The reader of each option, by name.
static constexpr struct {
  StringLiteral key;
  Error (*set)(const json::Value &value, StringRef key, Options &options);
} optionRows[] = {
    {"threads", setCount<&Options::threads>},
    {"list_blockings", setCount<&Options::listBlockings>},
    {"blockings", setBlockings},
    {"dump", setMember<&Options::dump>},
    {"stop", setMember<&Options::stop>},
    {"cpu", setMember<&Options::cpu>},
    {"explain", setMember<&Options::explain>},
    {"debug", setMember<&Options::debug>},
    {"hazards", setHazards},
    {"machine", setMachine},
    {"super_kernels", setSuperKernels},
    {"panels", setPanels},
    {"activations", setActivations},
    {"bindings", setBindings},
    {"pad", setMember<&Options::pad>},
    {"symbolic", setMember<&Options::symbolic>},
    {"config", setConfig},
};

static Error setOption(StringRef key, const json::Value &value,
                       Options &options) {
  for (const auto &row : optionRows)
    if (row.key == key)
      return row.set(value, key, options);
  return bad("there is no option '" + key + "'");
}

static void readEnvironment(Options &options) {
  auto text = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (options.dump.empty())
    options.dump = text("ANABRANCH_DUMP");
  if (options.stop.empty())
    options.stop = text("ANABRANCH_STOP");
  std::string explain = text("ANABRANCH_EXPLAIN");
  options.explain |= !explain.empty() && explain != "0";
}

Expected<Options> parseOptions(StringRef text) {
  Options options;
  if (!text.empty()) {
    Expected<json::Value> value = json::parse(text);
    if (!value)
      return bad("the options are no JSON: " + toString(value.takeError()));
    const json::Object *object = value->getAsObject();
    if (!object)
      return bad("the options must be a JSON object");
    for (const auto &[key, option] : *object)
      if (Error error = setOption(key, option, options))
        return std::move(error);
  }
  // Inside of a super kernel all members overlap that their data lets overlap.
  if (options.streams.supers.find)
    options.streams.find = false;
  readEnvironment(options);
  if (!options.stop.empty() && !findPhase(options.stop))
    return bad("there is no phase '" + options.stop + "' to stop after");
  return options;
}

} // namespace pipeline
} // namespace anabranch
