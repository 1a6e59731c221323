"""The settings of a client: names, values, how they are parsed, and the files that they name.

    names             which names there are, which mean the same, and which are refused
    values            the parsed settings: frozen values that hide their secrets
    given             the settings as given, by name
    parsing           from names and texts to values
    tls               from names and texts to the settings of TLS
    logins            from names and texts to a login: what each mechanism needs
    files             properties files, key stores and contexts of TLS: the part that reads files
    command_line      what the options of a command say about its cluster
    bearer_tokens     bearer tokens of OAUTHBEARER: from files, endpoints, or made here

Rules: what is parsed reads no file; no error, no warning and no repr contains a secret.
"""
