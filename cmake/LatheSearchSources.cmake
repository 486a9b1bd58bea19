# A hash of the sources that decide which plan a search by the model alone finds, as a function of the library's:
# plans that are kept on disk are one version's. As a script (cmake -P) it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} files)
  set(hashes "")
  foreach(file ${files})
    file(SHA256 ${file} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 all "${hashes}")
  string(SUBSTRING ${all} 0 16 all)
  file(WRITE ${OUT} "#include \"compile/program_cache.hpp\"\n\n"
                    "const char* lathe::pipeline::search_sources() { return \"${all}\"; }\n")
  return()
endif()

set(search_sources "")
foreach(room core view graph ast lower search)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/src/${room})
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.?pp ${folder}/*.def)
  list(APPEND search_sources ${files})
endforeach()
set(search_sources_list ${CMAKE_BINARY_DIR}/generated/search_sources.txt)
string(REPLACE ";" "\n" lines "${search_sources}")
file(GENERATE OUTPUT ${search_sources_list} CONTENT "${lines}\n")
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/search_sources.cpp
  COMMAND ${CMAKE_COMMAND} -DLIST=${search_sources_list} -DOUT=${CMAKE_BINARY_DIR}/generated/search_sources.cpp
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${search_sources} ${search_sources_list} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(lathe_compile PRIVATE ${CMAKE_BINARY_DIR}/generated/search_sources.cpp)
