//===- answer.cpp - a C++ program that gets an answer by one call ---------===//
// SPDX-License-Identifier: Apache-2.0

// Usage: answer PACKAGE END TOKEN...
//
// Runs a package of anabranch.llm.export(answer=N) once: it reads the prompt,
// generates up to N tokens or END, and prints them. Links the runtime only.

#include <anabranch/Executable.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace anabranch;

namespace {

/// The results of the call: the tokens, and how many they are.
class Answer : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    if (count != 2)
      return Status(StatusCode::InvalidArgument,
                    "the package is none of anabranch.llm.export(answer=N)");
    found.resize(static_cast<size_t>(outputs[0].tensor.shape[0]));
    outputs[0].tensor.data = found.data();
    outputs[1].tensor.data = &made;
    return {};
  }
  std::vector<int64_t> found;
  int64_t made = 0;
};

/// The arguments of the call, and the state that it begins with.
class Arguments {
public:
  Arguments(const Executable &executable, std::vector<int64_t> prompt,
            int64_t end)
      : executable(executable), tokens(std::move(prompt)), end(end),
        last(static_cast<int64_t>(tokens.size()) - 1) {}

  /// Gives each input its memory. An error: no program takes the prompt.
  Status bind() {
    const std::vector<InputInfo> &infos = executable.inputs();
    values.resize(infos.size());
    states.resize(infos.size());
    for (size_t i = 0; i < infos.size(); ++i) {
      values[i].tensor.dtype = infos[i].dtype;
      if (infos[i].initial)
        bindState(infos[i], values[i].tensor, states[i]);
      else
        bindNumber(infos[i].name, i);
    }
    // Tokens after the prompt fill the call up.
    for (; shape[1] <= most; ++shape[1])
      if (executable.hasProgramFor(values.data(), values.size())) {
        tokens.resize(static_cast<size_t>(shape[1]));
        values[place].tensor.data = tokens.data();
        return {};
      }
    return Status(StatusCode::InvalidArgument,
                  "the package has no program for a prompt of " +
                      std::to_string(last + 1) + " tokens");
  }

  std::vector<InputValue> values;

private:
  void bindState(const InputInfo &info, TensorView &tensor,
                 std::vector<char> &state) {
    size_t bytes = itemSize(info.dtype);
    for (int64_t size : info.shape)
      bytes *= static_cast<size_t>(size);
    const char *first = static_cast<const char *>(info.initial);
    state.assign(first, first + bytes);
    tensor.data = state.data();
    tensor.shape = info.shape.data();
    tensor.rank = static_cast<int32_t>(info.shape.size());
    most = info.shape[2];
  }

  void bindNumber(const std::string &name, size_t number) {
    bool isPrompt = name == "tokens";
    TensorView &tensor = values[number].tensor;
    tensor.rank = isPrompt ? 2 : 1;
    tensor.shape = isPrompt ? shape : one;
    if (isPrompt)
      place = number;
    tensor.data = name == "start"   ? &start
                  : name == "last"  ? &last
                  : name == "count" ? &count
                                    : &end;
  }

  const Executable &executable;
  std::vector<int64_t> tokens;
  std::vector<std::vector<char>> states;
  int64_t start = 0, end, last, count = INT64_MAX, most = 0;
  int64_t one[1] = {1};
  int64_t shape[2] = {1, static_cast<int64_t>(tokens.size())};
  size_t place = 0;
};

Status run(const char *package, int64_t end, std::vector<int64_t> prompt) {
  auto executable = Executable::open(package);
  if (!executable)
    return executable.takeStatus();
  Arguments arguments(**executable, std::move(prompt), end);
  if (Status s = arguments.bind(); !s.ok())
    return s;
  Answer answer;
  OutputValue outputs[2];
  auto begin = std::chrono::steady_clock::now();
  Status s = (*executable)
                 ->run(arguments.values.data(), arguments.values.size(),
                       outputs, 2, answer);
  if (!s.ok())
    return s;
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  for (int64_t i = 0; i < answer.made; ++i)
    std::printf("%lld\n", static_cast<long long>(answer.found[size_t(i)]));
  std::fprintf(stderr, "%lld tokens in %.3f s\n",
               static_cast<long long>(answer.made), time.count());
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: answer PACKAGE END TOKEN...\n");
    return 2;
  }
  std::vector<int64_t> prompt;
  for (int i = 3; i < argc; ++i)
    prompt.push_back(std::strtoll(argv[i], nullptr, 10));
  Status status = run(argv[1], std::strtoll(argv[2], nullptr, 10), prompt);
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
