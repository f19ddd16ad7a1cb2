//===- TorchSchema.h - what an operator takes and gives ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHSCHEMA_H
#define ANABRANCH_BINDINGS_TORCHSCHEMA_H

#include <Python.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::python {

/// A type in a schema: a plain one, or an optional or a list of another.
struct SchemaType {
  enum class Kind {
    Tensor,
    Int,
    Float,
    Bool,
    String,
    DType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
    Optional,
    List,
    Other ///< among them Scalar, which may be an int or a float
  };
  Kind kind = Kind::Other;
  std::unique_ptr<SchemaType> inner; ///< Optional, List

  /// Parses PyTorch's own spelling: "Optional[List[int]]".
  static SchemaType parse(std::string_view text);
};

struct SchemaArgument {
  std::string name;
  bool keywordOnly = false;
  SchemaType type;
};

/// One overload of an operator, looked up once.
struct TorchOperator {
  PyObject *callable = nullptr; ///< torch.ops.aten.topk.default; never freed
  std::string name;             ///< "aten::topk"
  std::string overload;
  std::vector<SchemaArgument> arguments;
  /// The place of each argument among the arguments sorted by name: the order
  /// in which compiled programs have them.
  std::vector<size_t> placesByName;
  std::vector<SchemaType> returns;
  bool writes = false; ///< some of its arguments
  bool byShim = false; ///< the C shim can carry every argument and result

  void sortNames();

  /// Null with a Python error set if there is no such operator.
  static std::unique_ptr<TorchOperator> find(const std::string &name,
                                             const std::string &overload);
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHSCHEMA_H
