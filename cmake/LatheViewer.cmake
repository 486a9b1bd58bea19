# The viewer's page as a text in the library: tools/viewer/*.js one after the other, and the style. As a script (cmake -P) it
# writes the file. There is nothing to download and nothing to bundle: the modules are our own.
set(viewer_modules base graph rewrites charts search run compare main)
if(CMAKE_SCRIPT_MODE_FILE)
  # A literal may be long, but compilers differ on how long: one literal a piece.
  function(literal file out)
    file(READ ${file} text)
    string(FIND "${text}" ")viewer\"" ends_literal)
    if(NOT ends_literal EQUAL -1)
      message(FATAL_ERROR "${file} holds the end of a raw literal")
    endif()
    set(${out} "R\"viewer(${text})viewer\"" PARENT_SCOPE)
  endfunction()
  set(script "")
  foreach(module ${viewer_modules})
    literal(${FOLDER}/${module}.js text)
    string(APPEND script "\n    ${text}")
  endforeach()
  literal(${FOLDER}/viewer.html html)
  literal(${FOLDER}/viewer.css style)
  file(WRITE ${OUT} "#include \"compile/view/page.hpp\"\n\n"
                    "lathe::view::ViewerText lathe::view::viewer_text() {\n"
                    "  return {${html},\n    ${style},${script}};\n}\n")
  return()
endif()

set(viewer_folder ${CMAKE_CURRENT_SOURCE_DIR}/tools/viewer)
set(viewer_files ${viewer_folder}/viewer.html ${viewer_folder}/viewer.css)
foreach(module ${viewer_modules})
  list(APPEND viewer_files ${viewer_folder}/${module}.js)
endforeach()
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/viewer_text.cpp
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${viewer_folder} -DOUT=${CMAKE_BINARY_DIR}/generated/viewer_text.cpp -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${viewer_files} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(lathe_compile PRIVATE ${CMAKE_BINARY_DIR}/generated/viewer_text.cpp)
