# The ONNX importer, a library of its own: whoever does not load models does not load protobuf. The messages are those of ONNX's
# official onnx.proto as the system has it, put in a package of our own, so that libonnx can be in the same process.
find_package(Protobuf QUIET)
find_path(LATHE_ONNX_PROTO_DIR onnx/onnx.proto DOC "folder with onnx/onnx.proto")
set(LATHE_HAS_ONNX OFF)
if(LATHE_ONNX AND Protobuf_FOUND AND LATHE_ONNX_PROTO_DIR)
  set(LATHE_HAS_ONNX ON)
endif()
message(STATUS "lathe onnx: ${LATHE_HAS_ONNX}")
if(NOT LATHE_HAS_ONNX)
  return()
endif()

set(generated ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LATHE_ONNX_PROTO_DIR}/onnx/onnx.proto)
file(READ ${LATHE_ONNX_PROTO_DIR}/onnx/onnx.proto messages)
string(REPLACE "package onnx;" "package lathe_onnx;" messages "${messages}")
# Defaults of a function's attributes came with IR version 9.
if(NOT messages MATCHES "attribute_proto = 11")
  string(REPLACE "repeated string attribute = 6;" "repeated string attribute = 6;\n  repeated AttributeProto attribute_proto = 11;"
         messages "${messages}")
endif()
file(GENERATE OUTPUT ${generated}/lathe_onnx.proto CONTENT "${messages}")
foreach(name data program)
  file(GENERATE OUTPUT ${generated}/lathe_onnx_${name}.proto INPUT ${CMAKE_CURRENT_SOURCE_DIR}/src/onnx/onnx_${name}.proto)
endforeach()
set(proto_sources)
foreach(name lathe_onnx lathe_onnx_data lathe_onnx_program)
  add_custom_command(OUTPUT ${generated}/${name}.pb.cc ${generated}/${name}.pb.h
    COMMAND protobuf::protoc --proto_path=${generated} --cpp_out=${generated} ${generated}/${name}.proto
    DEPENDS ${generated}/${name}.proto ${generated}/lathe_onnx.proto)
  list(APPEND proto_sources ${generated}/${name}.pb.cc)
endforeach()
add_library(lathe_onnx_proto OBJECT ${proto_sources})
target_include_directories(lathe_onnx_proto SYSTEM PUBLIC ${generated} ${Protobuf_INCLUDE_DIRS})

file(GLOB onnx_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/onnx/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/src/onnx/ops/*.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/src/onnx/ops/*/*.cpp)
add_library(lathe-onnx SHARED ${onnx_sources} ${LATHE_NEVER_DESTROYED} $<TARGET_OBJECTS:lathe_onnx_proto>)
add_library(lathe::onnx ALIAS lathe-onnx)
lathe_export_own_names(lathe-onnx)
add_dependencies(lathe-onnx lathe_onnx_proto)
set_target_properties(lathe-onnx PROPERTIES EXPORT_NAME onnx VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(lathe-onnx PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
target_include_directories(lathe-onnx SYSTEM PRIVATE ${generated} ${Protobuf_INCLUDE_DIRS})
target_compile_options(lathe-onnx PRIVATE -Wall -Wextra $<$<BOOL:${LATHE_WERROR}>:-Werror>)
target_link_libraries(lathe-onnx PUBLIC lathe PRIVATE fmt::fmt protobuf::libprotobuf-lite)
