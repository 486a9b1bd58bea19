// UTF-8, in which ONNX has its strings, and the characters that it stands for.
#pragma once
#include <string>
#include <string_view>

namespace lathe::onnx {

/// The characters of a text. Error(Value) that quotes it if it is no UTF-8: overlong forms, surrogates and what lies
/// beyond Unicode are none.
std::u32string characters(std::string_view utf8);
/// The way back. Error(Value) for what is no character of Unicode.
std::string utf8(std::u32string_view characters);

}  // namespace lathe::onnx
