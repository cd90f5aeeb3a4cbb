"""Connections and jobs as ManifoldCF's REST API prints them, written for tests from its published format."""

PACKAGE = "org.apache.manifoldcf."
WEB = {
    "repositoryconnection": {
        "isnew": "false",
        "name": "Intranet",
        "class_name": f"{PACKAGE}crawler.connectors.webcrawler.WebcrawlerConnector",
        "max_connections": "10",
        "description": "",
        "configuration": {
            "_PARAMETER_": [
                {"_attribute_name": "Email address", "_value_": "crawl@docs.test"},
                {"_attribute_name": "Robots usage", "_value_": "none"},
                {"_attribute_name": "Proxy authentication password", "_value_": "swordfish"},
                {"_attribute_name": "Proxy host", "_value_": ""},
            ],
            "bindesc": [
                {
                    "_attribute_binregexp": "",
                    "_attribute_caseinsensitive": "false",
                    "maxconnections": {"_attribute_value": "2", "_value_": ""},
                    "maxkbpersecond": {"_attribute_value": "64", "_value_": ""},
                    "maxfetchesperminute": {"_attribute_value": "12", "_value_": ""},
                },
                {"_attribute_binregexp": "^slow\\.docs\\.test$", "maxfetchesperminute": {"_attribute_value": "3"}},
                {"_attribute_binregexp": "^(a|b)$", "maxfetchesperminute": {"_attribute_value": "3"}},
            ],
            "accesscredential": {
                "_attribute_urlregexp": "/private/",
                "_attribute_type": "basic",
                "_attribute_username": "vera",
                "_attribute_password": "swordfish",
            },
        },
        "acl_authority": "staff",
        "throttle": {"match": "docs\\.test", "match_description": "gently", "rate": "6"},
    }
}
FEEDS = {
    "repositoryconnection": {
        "name": "News",
        "class_name": f"{PACKAGE}crawler.connectors.rss.RSSConnector",
        "configuration": {
            "_PARAMETER_": [
                {"_attribute_name": "Max server connections", "_value_": "3"},
                {"_attribute_name": "KB per second", "_value_": "32"},
                {"_attribute_name": "Throttle group", "_value_": "all"},
            ]
        },
    }
}
FILES = {
    "repositoryconnection": {
        "name": "Shares",
        "class_name": f"{PACKAGE}crawler.connectors.filesystem.FileConnector",
        "configuration": {},
    }
}
OTHER = {"repositoryconnection": {"name": "SharePoint", "class_name": f"{PACKAGE}crawler.connectors.sharepoint.SP"}}
SOLR = {
    "outputconnection": {
        "name": "Solr",
        "class_name": f"{PACKAGE}agents.output.solr.SolrConnector",
        "max_connections": "10",
        "configuration": {"_PARAMETER_": {"_attribute_name": "Server name", "_value_": "solr.test"}},
    }
}
NULL = {"outputconnection": {"name": "Nothing", "class_name": f"{PACKAGE}agents.output.nullconnector.NullConnector"}}


def stage(name, *, is_output="true", **facts):
    return {"stage_id": "0", "stage_isoutput": is_output, "stage_connectionname": name, **facts}


WEB_JOB = {
    "job": {
        "id": "1700000000000",
        "description": "Intranet pages",
        "repository_connection": "Intranet",
        "document_specification": {
            "seeds": "# the seeds\nhttp://docs.test/\n\nhttp://docs.test/more\n",
            "includes": ".*",
            "excludes": "\\.zip$\n(?=lookahead)\n",
            "includesindex": ".*",
            "excludesindex": "/index/$",
            "excludescontentindex": "draft",
            "limittoseeds": {"_value_": "", "_attribute_value": "true"},
            "urlspec": {"_value_": "", "_attribute_regexp": "docs", "_attribute_reorder": "no"},
            "access": [{"_attribute_token": "staff"}],
            "excludeheader": [],
            "something_new": {"_attribute_value": "7"},
        },
        "start_mode": "schedule window start",
        "run_mode": "scan once",
        "hopcount_mode": "never delete",
        "priority": "3",
        "recrawl_interval": "86400000",
        "max_recrawl_interval": "infinite",
        "expiration_interval": "infinite",
        "reseed_interval": "3600000",
        "hopcount": [{"link_type": "link", "count": "4"}, {"link_type": "child", "count": "1"}],
        "schedule": {
            "requestminimum": "true",
            "timezone": "Europe/Berlin",
            "dayofweek": {"value": [0, 6]},
            "monthofyear": {"value": "0"},
            "dayofmonth": {"value": ["0", "2"]},
            "year": {"value": "2027"},
            "hourofday": {"value": 1},
            "minutesofhour": {"value": 30},
            "duration": "7200000",
        },
        "pipelinestage": [
            stage("Tika", is_output="false", stage_specification={}),
            stage("Solr", stage_prerequisite="0", stage_specification={}),
        ],
        "forcedparam": {"paramname": "source", "paramvalue": "intranet"},
    }
}
FEED_JOB = {
    "job": [
        {
            "description": "News",
            "repository_connection": "News",
            "document_specification": {
                "feed": [{"_attribute_url": "http://news.test/a"}, {"_attribute_url": "http://news.test/b"}],
                "excludes": "/ads/",
                "feedrescan": {"_attribute_value": "60"},
                "chromedmode": {"_attribute_mode": "skip"},
                "dechromedmode": {"_attribute_mode": "none"},
            },
            "start_mode": "manual",
            "run_mode": "continuous",
            "recrawl_interval": "86400000",
            "max_recrawl_interval": "172800500",
            "expiration_interval": "infinite",
            "reseed_interval": "3600000",
            "pipelinestage": stage("Solr"),
        }
    ]
}


def file_job(directory):
    return {
        "job": {
            "description": "Shares",
            "repository_connection": "Shares",
            "document_specification": {
                "startpoint": {
                    "_attribute_path": str(directory),
                    "_attribute_converttouri": "false",
                    "_children_": [
                        {"_type_": "exclude", "_attribute_type": "directory", "_attribute_match": "drafts"},
                        {"_type_": "include", "_attribute_type": "file", "_attribute_match": "*.txt"},
                        {"_type_": "include", "_attribute_type": "directory", "_attribute_match": "*"},
                        {"_type_": "exclude", "_attribute_type": "directory", "_attribute_match": "late"},
                    ],
                }
            },
            "run_mode": "scan once",
            "pipelinestage": [stage("Nothing")],
        }
    }
