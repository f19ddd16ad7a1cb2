//===- DLPack.h - the memory layouts of the DLPack standard -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The structures that cross between the binding and a tensor library in the
// same process: version 1 of the standard, with its C exchange API.

#ifndef ANABRANCH_BINDINGS_DLPACK_H
#define ANABRANCH_BINDINGS_DLPACK_H

#include <cstdint>

namespace anabranch::dlpack {

inline constexpr uint32_t majorVersion = 1;
inline constexpr int32_t cpuDevice = 1;

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct Device {
  int32_t type;
  int32_t id;
};

/// Numbers of DataType::code.
enum Code : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  BFloat = 4,
  Complex = 5,
  Bool = 6,
  Float8E4M3FN = 10,
  Float8E4M3FNUZ = 11,
  Float8E5M2 = 12,
  Float8E5M2FNUZ = 13
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t *shape;
  int64_t *strides; ///< in elements
  uint64_t byteOffset;
};

/// A tensor with its owner; the deleter frees the struct as well.
struct ManagedTensor {
  Version version;
  void *context;
  void (*deleter)(ManagedTensor *self);
  uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader *previous;
};

/// The table that `type(tensor).__dlpack_c_exchange_api__` points at. All
/// functions return 0, or -1 with a Python error set; `allocate` reports by
/// `setError`.
struct ExchangeAPI {
  ExchangeHeader header;
  int (*allocate)(Tensor *prototype, ManagedTensor **out, void *errorContext,
                  void (*setError)(void *errorContext, const char *kind,
                                   const char *message));
  int (*managedFromObject)(void *object, ManagedTensor **out);
  int (*managedToObject)(ManagedTensor *tensor, void **out);
  int (*tensorFromObject)(void *object, Tensor *out);
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void **out);
};

inline constexpr const char *exchangeCapsule = "dlpack_exchange_api";

} // namespace anabranch::dlpack

#endif // ANABRANCH_BINDINGS_DLPACK_H
