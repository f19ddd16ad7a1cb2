//===- ranks.cpp - ranks of a package with collectives --------------------===//
// SPDX-License-Identifier: Apache-2.0

// Usage: ranks PACKAGE RANK RANKS SOCKET INPUT OUTPUT. Each rank is a process
// of this program with the package of its rank. It reads the first input from a
// file of raw elements, and writes the first output to another. The package's
// collectives meet at a Unix socket, where rank 0 listens. A program for
// several hosts would call its own library of collectives instead. Links the
// runtime only: no Python, no PyTorch, no compiler.

#include <anabranch/Executable.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace anabranch;
using Bytes = std::vector<char>;

namespace {

/// The ranks of this run. A failure to talk to them is an exception.
class World {
public:
  World(int rank, int ranks, const std::string &path)
      : rank(rank), ranks(ranks) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                  path.c_str());
    auto *where = reinterpret_cast<sockaddr *>(&address);
    if (rank == 0)
      welcome(where, sizeof(address));
    else
      join(where, sizeof(address));
  }
  ~World() {
    for (int peer : peers)
      close(peer);
  }

  /// The bytes of each rank, in the order of the ranks. All give as many.
  std::vector<Bytes> exchange(const Bytes &mine) {
    std::vector<Bytes> all(ranks, Bytes(mine.size()));
    all[rank] = mine;
    if (rank == 0) {
      for (int other = 1; other < ranks; ++other)
        receive(peers[other - 1], all[other]);
      for (int peer : peers)
        for (const Bytes &part : all)
          send(peer, part);
    } else {
      send(peers[0], mine);
      for (Bytes &part : all)
        receive(peers[0], part);
    }
    return all;
  }

  const int rank, ranks;

private:
  void welcome(const sockaddr *where, socklen_t size) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, where, size) || listen(listener, ranks))
      throw std::runtime_error("the socket's path cannot be used");
    peers.resize(ranks - 1);
    for (int i = 1; i < ranks; ++i) {
      int peer = accept(listener, nullptr, nullptr);
      int32_t who = 0;
      receive(peer, &who, sizeof(who));
      peers.at(who - 1) = peer;
    }
    close(listener);
  }
  void join(const sockaddr *where, socklen_t size) {
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int tries = 0; connect(peer, where, size); ++tries) {
      if (tries == 600)
        throw std::runtime_error("rank 0 does not listen");
      usleep(100000); // it may not have started yet
    }
    peers = {peer};
    int32_t who = rank;
    send(peer, &who, sizeof(who));
  }

  static void send(int peer, const Bytes &bytes) {
    send(peer, bytes.data(), bytes.size());
  }
  static void receive(int peer, Bytes &bytes) {
    receive(peer, bytes.data(), bytes.size());
  }
  static void send(int peer, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
      ssize_t n =
          write(peer, static_cast<const char *>(data) + done, size - done);
      if (n <= 0)
        throw std::runtime_error("a rank has ended");
      done += static_cast<size_t>(n);
    }
  }
  static void receive(int peer, void *data, size_t size) {
    for (size_t done = 0; done < size;) {
      ssize_t n = read(peer, static_cast<char *>(data) + done, size - done);
      if (n <= 0)
        throw std::runtime_error("a rank has ended");
      done += static_cast<size_t>(n);
    }
  }

  std::vector<int> peers; ///< rank 0: of the others in order; else: rank 0
};

/// A tensor with memory of its own.
struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  Bytes bytes;

  TensorView view() {
    return {bytes.data(), shape.data(), nullptr,
            static_cast<int32_t>(shape.size()), dtype};
  }
};

int64_t countOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// The tensor in row-major order.
Array copyOf(const TensorView &tensor) {
  Array array;
  array.dtype = tensor.dtype;
  array.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  size_t item = itemSize(tensor.dtype);
  int64_t count = countOf(array.shape);
  array.bytes.resize(static_cast<size_t>(count) * item);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset = 0, dense = 1;
    for (int32_t dim = tensor.rank; dim-- > 0;) {
      int64_t step = tensor.strides ? tensor.strides[dim] : dense;
      offset += rest % array.shape[dim] * step;
      rest /= array.shape[dim];
      dense *= array.shape[dim];
    }
    std::memcpy(&array.bytes[static_cast<size_t>(i) * item],
                static_cast<const char *>(tensor.data) +
                    offset * static_cast<int64_t>(item),
                item);
  }
  return array;
}

/// Runs the collectives of a package among all ranks of the world. A package
/// names a group by its ranks and its number among the groups of these ranks:
/// "ranks 0,1 #0".
class Collectives : public HostCalls {
public:
  explicit Collectives(World &world) : world(world), group("ranks ") {
    for (int rank = 0; rank < world.ranks; ++rank)
      group += (rank ? "," : "") + std::to_string(rank);
    group += " #0";
  }

  Expected<void *> prepare(const char *op, const char *) override {
    for (const char *&name : known)
      if (std::string(op) == std::string("anabranch_c10d::") + name)
        return static_cast<void *>(&name);
    return Status(StatusCode::Unsupported,
                  std::string("ranks: there is no ") + op);
  }

  Status call(const HostCall &call, HostResult *results) override {
    auto find = [&](const char *name) -> const HostArgument & {
      for (size_t i = 0; i < call.argumentCount; ++i)
        if (call.arguments[i].name == std::string(name))
          return call.arguments[i];
      throw std::runtime_error(std::string("no argument ") + name);
    };
    try {
      std::string name = *static_cast<const char **>(call.prepared);
      if (group != find("group_name").string)
        throw std::runtime_error(std::string("no group ") +
                                 find("group_name").string);
      auto held = std::make_unique<Array>(copyOf(find("input").tensor));
      std::vector<Bytes> all = world.exchange(held->bytes);
      if (name == "all_reduce") {
        if (find("reduce_op").string != std::string("sum") ||
            held->dtype != DType::F32)
          throw std::runtime_error("only sums of f32 are written here");
        held->bytes = sumOf(all);
      } else if (name == "broadcast") {
        held->bytes = all.at(static_cast<size_t>(find("src").integer));
      } else { // all_gather_into_tensor
        held->bytes.clear();
        for (const Bytes &part : all)
          held->bytes.insert(held->bytes.end(), part.begin(), part.end());
        held->shape[0] *= world.ranks;
      }
      results[0].tensor = held->view();
      results[0].handle = held.release();
      return {};
    } catch (const std::exception &error) {
      return Status(StatusCode::HostError,
                    std::string(call.op) + ": " + error.what());
    }
  }

  void release(void *handle) override { delete static_cast<Array *>(handle); }

private:
  static Bytes sumOf(const std::vector<Bytes> &all) {
    Bytes sum = all[0];
    for (size_t other = 1; other < all.size(); ++other)
      for (size_t at = 0; at < sum.size(); at += sizeof(float)) {
        float one, two;
        std::memcpy(&one, &sum[at], sizeof(one));
        std::memcpy(&two, &all[other][at], sizeof(two));
        one += two;
        std::memcpy(&sum[at], &one, sizeof(one));
      }
    return sum;
  }

  const char *known[3] = {"all_reduce", "broadcast", "all_gather_into_tensor"};
  World &world;
  std::string group;
};

/// Gives every output an array.
class Outputs : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    arrays.resize(count);
    for (size_t i = 0; i < count; ++i) {
      TensorView &tensor = outputs[i].tensor;
      if (outputs[i].kind != OutputValue::Kind::Tensor)
        continue;
      arrays[i].shape.assign(tensor.shape, tensor.shape + tensor.rank);
      int64_t count = countOf(arrays[i].shape);
      arrays[i].bytes.resize(static_cast<size_t>(count) *
                             itemSize(tensor.dtype));
      tensor.data = arrays[i].bytes.data();
    }
    return {};
  }
  std::vector<Array> arrays;
};

void run(char **argv) {
  World world(std::atoi(argv[2]), std::atoi(argv[3]), argv[4]);
  Collectives collectives(world);
  OpenOptions options;
  options.hostCalls = &collectives;
  auto package = Executable::open(argv[1], options);
  if (!package)
    throw std::runtime_error(package.status().message());

  Array x;
  const InputInfo &info = (*package)->inputs()[0];
  x.dtype = info.dtype;
  x.shape = info.shape;
  std::ifstream file(argv[5], std::ios::binary);
  x.bytes.assign(std::istreambuf_iterator<char>(file), {});
  InputValue input;
  input.tensor = x.view();

  Outputs outputs;
  std::vector<OutputValue> values((*package)->outputs().size());
  Status status =
      (*package)->run(&input, 1, values.data(), values.size(), outputs);
  if (!status.ok())
    throw std::runtime_error(status.message());
  const OutputValue &first = values[0];
  Array made = first.kind == OutputValue::Kind::External ? copyOf(first.tensor)
                                                         : outputs.arrays[0];
  if (first.kind == OutputValue::Kind::External)
    collectives.release(first.handle);
  std::ofstream(argv[6], std::ios::binary)
      .write(made.bytes.data(),
             static_cast<std::streamsize>(made.bytes.size()));
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 7) {
    std::fprintf(stderr,
                 "usage: ranks PACKAGE RANK RANKS SOCKET INPUT OUTPUT\n");
    return 2;
  }
  try {
    run(argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    return 1;
  }
  return 0;
}
