-- Another script several times: FOLDER SCRIPT ROUNDS
for _ = 1, tonumber(arg[3]) do dofile(arg[2]) end
