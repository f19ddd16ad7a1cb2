//===- generate.cpp - a C++ program that samples tokens -------------------===//
// SPDX-License-Identifier: Apache-2.0

// Usage: generate PACKAGE [options] TOKEN...
//   --new N          tokens of the answer at most (default 32)
//   --end TOKEN      the token that ends an answer
//   --temperature T  0 (the default) takes the most likely token
//   --top-k K        draws from the K most likely tokens (default 40)
//   --seed S         of the draws (default 0)
//
// Runs a package of anabranch.llm.export: prints the answer's tokens as they
// come. Links the runtime only: no Python, no PyTorch, no compiler.

#include <anabranch/Executable.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace anabranch;
using Clock = std::chrono::steady_clock;

namespace {

struct Options {
  std::string package;
  std::vector<int64_t> prompt;
  int64_t most = 32, end = -1, topK = 40, seed = 0;
  double temperature = 0;
};

/// The logits of a call.
class Logits : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    if (count != 1 || outputs[0].tensor.dtype != DType::F32 ||
        outputs[0].tensor.rank != 2)
      return Status(StatusCode::InvalidArgument,
                    "the package is none of anabranch.llm.export");
    values.resize(static_cast<size_t>(outputs[0].tensor.shape[1]));
    outputs[0].tensor.data = values.data();
    return {};
  }
  std::vector<float> values;
};

/// A language model and what it has read so far.
class Model {
public:
  static Expected<std::unique_ptr<Model>> open(const std::string &path) {
    auto executable = Executable::open(path);
    if (!executable)
      return executable.takeStatus();
    std::unique_ptr<Model> model(new Model(std::move(*executable)));
    if (Status s = model->bind(); !s.ok())
      return s;
    return std::move(model);
  }

  int64_t room() const { return capacity - position; }

  /// Reads tokens. `logits` are those after the last one.
  Status read(const std::vector<int64_t> &tokens) {
    size_t done = 0;
    while (done < tokens.size()) {
      size_t size = sizeOfCall(tokens.size() - done);
      size_t count = std::min(size, tokens.size() - done);
      // The next call overwrites what fills this one up.
      std::vector<int64_t> part(size, 0);
      std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(done), count,
                  part.begin());
      if (Status s = call(part, static_cast<int64_t>(count) - 1); !s.ok())
        return s;
      done += count;
      position += static_cast<int64_t>(count);
    }
    return {};
  }

  Logits logits;

private:
  explicit Model(std::shared_ptr<const Executable> executable)
      : executable(std::move(executable)) {}

  std::shared_ptr<const Executable> executable;
  std::vector<std::vector<char>> states;
  std::vector<InputValue> inputs;
  std::vector<size_t> sizes;              ///< of a call, the smallest first
  size_t tokens = 0, start = 0, last = 0; ///< their numbers among the inputs
  int64_t capacity = 0, position = 0;
  int64_t shapeOfTokens[2] = {1, 1}, shapeOfOne[1] = {1};

  /// Gives the inputs their places, and the state its first value.
  Status bind() {
    const std::vector<InputInfo> &infos = executable->inputs();
    inputs.resize(infos.size());
    states.resize(infos.size());
    size_t known = 0;
    for (size_t i = 0; i < infos.size(); ++i) {
      TensorView &tensor = inputs[i].tensor;
      tensor.dtype = infos[i].dtype;
      if (!infos[i].initial) {
        size_t *number = infos[i].name == "tokens"  ? &tokens
                         : infos[i].name == "start" ? &start
                         : infos[i].name == "last"  ? &last
                                                    : nullptr;
        known += number != nullptr;
        if (number)
          *number = i;
        tensor.rank = number == &tokens ? 2 : 1;
        tensor.shape = number == &tokens ? shapeOfTokens : shapeOfOne;
        continue;
      }
      size_t bytes = itemSize(infos[i].dtype);
      for (int64_t size : infos[i].shape)
        bytes *= static_cast<size_t>(size);
      const char *first = static_cast<const char *>(infos[i].initial);
      states[i].assign(first, first + bytes);
      tensor.data = states[i].data();
      tensor.shape = infos[i].shape.data();
      tensor.rank = static_cast<int32_t>(infos[i].shape.size());
      capacity = infos[i].shape[2];
    }
    if (known != 3 || !capacity)
      return Status(StatusCode::InvalidArgument,
                    "the package is none of anabranch.llm.export");
    findSizes();
    return {};
  }

  /// The numbers of tokens that calls may have.
  void findSizes() {
    for (int64_t size = 1; size <= capacity; ++size) {
      shapeOfTokens[1] = size;
      if (executable->hasProgramFor(inputs.data(), inputs.size()))
        sizes.push_back(static_cast<size_t>(size));
    }
    if (sizes.empty())
      sizes.push_back(1);
  }

  /// The largest size without filling, or the smallest that takes all that is
  /// left, if the state has room for it.
  size_t sizeOfCall(size_t left) const {
    size_t best = 1;
    for (size_t size : sizes) {
      if (size > left && left > 1 && size <= static_cast<size_t>(room()))
        return size;
      if (size <= left)
        best = size;
    }
    return best;
  }

  Status call(std::vector<int64_t> &part, int64_t column) {
    shapeOfTokens[1] = static_cast<int64_t>(part.size());
    inputs[tokens].tensor.data = part.data();
    inputs[start].tensor.data = &position;
    inputs[last].tensor.data = &column;
    OutputValue output;
    return executable->run(inputs.data(), inputs.size(), &output, 1, logits);
  }
};

/// The next token.
int64_t choose(const std::vector<float> &logits, const Options &o,
               std::mt19937_64 &random) {
  auto highest = std::max_element(logits.begin(), logits.end());
  if (o.temperature <= 0)
    return highest - logits.begin();
  std::vector<int64_t> likely(logits.size());
  for (size_t i = 0; i < likely.size(); ++i)
    likely[i] = static_cast<int64_t>(i);
  size_t count = std::min(likely.size(),
                          static_cast<size_t>(std::max<int64_t>(o.topK, 1)));
  std::partial_sort(
      likely.begin(), likely.begin() + static_cast<ptrdiff_t>(count),
      likely.end(), [&](int64_t a, int64_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
      });
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = std::exp((logits[static_cast<size_t>(likely[i])] - *highest) /
                          o.temperature);
  std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
  return likely[draw(random)];
}

double secondsSince(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

Status generate(const Options &o) {
  Clock::time_point begin = Clock::now();
  auto opened = Model::open(o.package);
  if (!opened)
    return opened.takeStatus();
  Model &model = **opened;
  double open = secondsSince(begin);
  if (static_cast<int64_t>(o.prompt.size()) + o.most - 1 > model.room())
    return Status(StatusCode::InvalidArgument,
                  "the answer may reach " +
                      std::to_string(o.prompt.size() + size_t(o.most)) +
                      " tokens and the package's state holds " +
                      std::to_string(model.room()));
  begin = Clock::now();
  std::mt19937_64 random(static_cast<uint64_t>(o.seed));
  std::vector<int64_t> next = o.prompt;
  double first = 0;
  int64_t count = 0;
  while (count < o.most) {
    if (Status s = model.read(next); !s.ok())
      return s;
    next = {choose(model.logits.values, o, random)};
    if (count++ == 0)
      first = secondsSince(begin);
    std::printf("%lld\n", static_cast<long long>(next[0]));
    std::fflush(stdout);
    if (next[0] == o.end)
      break;
  }
  double rest = secondsSince(begin) - first;
  std::fprintf(stderr, "open %.2f s, first token after %.3f s", open, first);
  if (count > 1)
    std::fprintf(stderr, ", %.1f tokens/s", double(count - 1) / rest);
  std::fprintf(stderr, "\n");
  return {};
}

bool parseNumber(const char *text, int64_t &value) {
  char *end;
  value = std::strtoll(text, &end, 10);
  return end != text && *end == '\0' && value >= 0;
}

/// The error in the command line; empty: none.
std::string parse(int argc, char **argv, Options &o) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    int64_t token = 0;
    int64_t *number = word == "--new"     ? &o.most
                      : word == "--end"   ? &o.end
                      : word == "--top-k" ? &o.topK
                      : word == "--seed"  ? &o.seed
                                          : nullptr;
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (number || word == "--temperature") {
      ++i;
      char *end = nullptr;
      if (!number)
        o.temperature = std::strtod(value, &end);
      if (number ? !parseNumber(value, *number) : end == value || *end != '\0')
        return word + " needs a number, not '" + value + "'";
    } else if (word.rfind("--", 0) == 0) {
      return "there is no option " + word;
    } else if (o.package.empty()) {
      o.package = word;
    } else if (parseNumber(word.c_str(), token)) {
      o.prompt.push_back(token);
    } else {
      return "a token is a number from 0, not '" + word + "'";
    }
  }
  if (o.prompt.empty() || o.most < 1)
    return "usage: generate PACKAGE [--new N] [--end TOKEN] [--temperature T]"
           " [--top-k K] [--seed S] TOKEN...";
  return "";
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  std::string wrong = parse(argc, argv, options);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return 2;
  }
  Status s = generate(options);
  if (!s.ok())
    std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
